internal import Logging
internal import NearshareBase
internal import NearshareDirect
package import NearshareInterfaces

// The radio, a second medium beside the network. It is opened on first use; its sightings, links and frames are handled like
// those of the network.
extension Node {
    /// The state of the radio of a listening node.
    package enum RadioState: Sendable, Hashable {
        /// Advertised: others find this node over it.
        case on(channel: UInt16)
        /// Not available, with the reason for the user.
        case unavailable(String)
    }

    /// Whether the settings contain a radio, which may still fail to open.
    package var hasRadio: Bool { settings.radio != nil }

    /// Whether the settings contain a radio, and it can be opened.
    package func opensRadio() async -> Bool { (try? await openRadio()) != nil }

    /// The BlueChat service of the radio: unencrypted texts from any peer.
    /// - Throws: ``NodeError/unavailable(_:)`` when the node has no radio, or a radio without this service.
    package func openChatRadio() async throws(NodeError) -> any ChatRadio {
        guard let chat = try await openRadio().chat else { throw .unavailable("this radio carries no plain texts") }
        return chat
    }

    /// Advertises and accepts links over the radio, from when it is ready until the node shuts down.
    func startRadio(_ mesh: MeshDriver?, queues: Listener.Queues, state radioState: Promise<RadioState>) {
        let isStarted = start { [self] in
            do throws(NodeError) {
                let radio = try await openRadio()
                let (listener, advertisement) = try await listen(on: radio, acceptsMeshLinks: mesh != nil)
                do throws(ThreadError) {
                    let thread = try BlockingThread.start { self.acceptLoop(listener, mesh, queues: queues) }
                    radioState.fulfil(.on(channel: listener.port))
                    mesh?.neighbours.runLinks(of: radio.frames)
                    await thread.join()
                } catch {
                    advertisement.stop()
                    remove(listener)
                    throw NodeError(error)
                }
            } catch {
                settings.log.debug("no Bluetooth: \(error)")
                radioState.fulfil(.unavailable(error.description))
            }
        }
        if !isStarted { radioState.fulfil(.unavailable(Self.stoppedError.description)) }
    }

    private func listen(
        on radio: Radio, acceptsMeshLinks: Bool
    ) async throws(NodeError) -> (any StreamListener, any RunningAdvertisement) {
        let (name, id, tag) = (name, id, Hex.encode(settings.random(2)))
        let (listener, advertisement) = try await Self.runBlocking {
            () -> Result<(any StreamListener, any RunningAdvertisement), NodeError> in
            let listener: any StreamListener
            do throws(LinkError) {
                listener = try radio.transport.listen(port: 0, interface: nil)
            } catch {
                return .failure(NodeError(error))
            }
            do throws(DiscoveryError) {
                return .success(
                    (
                        listener,
                        try radio.discovery.advertise(
                            Advertisement(
                                instance: "\(id.hex)-\(tag)", type: .nearshare, port: listener.port,
                                txt: PeerTXTRecord(id: id, name: name, acceptsMeshLinks: acceptsMeshLinks).strings))
                    ))
            } catch {
                listener.close()
                return .failure(.unavailable(error.description))
            }
        }
        guard insert(listener, advertisement) else {
            throw Self.stoppedError
        }
        return (listener, advertisement)
    }

    /// The node's radio, opened on first use.
    func openRadio() async throws(NodeError) -> Radio {
        guard let open = settings.radio else { throw .unavailable("this node uses no Bluetooth") }
        if let radio = openedRadio { return radio }
        let opened = try await Self.runBlocking { () -> Result<Radio, NodeError> in
            do throws(DiscoveryError) {
                return .success(try open())
            } catch {
                return .failure(.unavailable(error.description))
            }
        }
        return setRadio(opened)
    }

    private static func runBlocking<Value: Sendable>(
        _ body: @escaping @Sendable () -> Result<Value, NodeError>
    ) async throws(NodeError) -> Value {
        let result: Result<Value, NodeError>
        do throws(ThreadError) {
            result = try await BlockingThread.run(body)
        } catch {
            throw NodeError(error)
        }
        return try result.get()
    }
}
