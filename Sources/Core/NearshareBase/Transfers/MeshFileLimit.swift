/// The limit of this implementation on a file in the mesh, in both directions.
package enum MeshFileLimit {
    /// The largest content: 5 MiB.
    package static let byteCount = 5_242_880
}
