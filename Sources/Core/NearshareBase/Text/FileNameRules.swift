/// The names that a file system can hold.
package enum FileNameRules: Sendable, Hashable {
    /// File systems of Linux: everything but the separator and NUL.
    case linux
    /// File systems that Windows uses, which hold less.
    case windows

    /// - Parameter filesystemType: the type that statfs(2) reports; nil where it is not known.
    package init(filesystemType: UInt32?) {
        self = filesystemType.map(Self.windowsTypes.contains) ?? true ? .windows : .linux
    }

    /// FAT, exFAT, two drivers of NTFS, three of SMB, HFS+, the shares of VirtualBox and WSL (9P), and FUSE, behind which any of
    /// these may be.
    private static let windowsTypes: Set<UInt32> = [
        0x4d44, 0x2011_bab0, 0x5346_544e, 0x7366_746e, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x482b, 0x786f_4256,
        0x0102_1997, 0x6573_5546,
    ]
}
