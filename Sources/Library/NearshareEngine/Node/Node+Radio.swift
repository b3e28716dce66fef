internal import Logging
internal import NearshareBase
internal import NearshareDirect
package import NearshareInterfaces

// The second medium: a radio beside the network. It is opened when it is first needed, and what it finds, carries and takes is
// treated as what comes over the network is.
extension Node {
    /// The state of the radio of a listening node.
    package enum RadioState: Sendable, Hashable {
        /// Advertised: others find this node over it.
        case on(channel: UInt16)
        /// Not to be had; why, for people.
        case unavailable(String)
    }

    /// Whether its settings have one; it may still turn out not to be there.
    package var hasRadio: Bool { settings.radio != nil }

    /// Whether it has one, and that one can be used.
    package func opensRadio() async -> Bool { (try? await openRadio()) != nil }

    /// The radio's plain texts, for those who speak nothing else: in the clear, and from anybody.
    /// - Throws: ``NodeError/unavailable(_:)`` where this node has no radio, or one without them.
    package func openChatRadio() async throws(NodeError) -> any ChatRadio {
        guard let chat = try await openRadio().chat else { throw .unavailable("this radio carries no plain texts") }
        return chat
    }

    /// Receives over the radio as well, from when it is there until the node shuts down.
    func startRadio(_ mesh: MeshDriver?, _ waiting: Listener.Continuations, _ told: Promise<RadioState>) {
        start { [self] in
            do throws(NodeError) {
                let radio = try await openRadio()
                let listener = try await listen(on: radio, acceptsMeshLinks: mesh != nil)
                told.fulfil(.on(channel: listener.port))
                mesh?.runLinks(of: radio.frames)
                await BlockingThread.run { self.acceptLoop(listener, mesh, waiting) }
            } catch {
                settings.log.debug("no Bluetooth: \(error)")
                told.fulfil(.unavailable(error.description))
            }
        }
    }

    private func listen(on radio: Radio, acceptsMeshLinks: Bool) async throws(NodeError) -> any StreamListener {
        let (name, id, tag) = (name, id, Hex.encode(settings.random(2)))
        let listening = await BlockingThread.run { () -> Result<(any StreamListener, any RunningAdvertisement), NodeError> in
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
        let (listener, advertisement) = try listening.get()
        guard keep(listener, advertisement) else {
            throw .unavailable("the node is shutting down")
        }
        return listener
    }

    /// The node's radio, opened on first use.
    func openRadio() async throws(NodeError) -> Radio {
        guard let open = settings.radio else { throw .unavailable("this node uses no Bluetooth") }
        if let radio = knownRadio { return radio }
        let opened = await BlockingThread.run { () -> Result<Radio, NodeError> in
            do throws(DiscoveryError) {
                return .success(try open())
            } catch {
                return .failure(.unavailable(error.description))
            }
        }
        return remember(try opened.get())
    }
}

extension MeshDriver {
    /// Exchanges frames over every link of a radio, until the node stops.
    func runLinks(of radio: any FrameRadio) {
        start { [self] in
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    for await link in radio.links() {
                        // In a task of the driver, so that its last frames still go out when no more links are accepted.
                        self.start { await self.run(over: link) }
                    }
                }
                group.addTask { _ = await self.stopping.value }
                await group.next()
                group.cancelAll()
            }
        }
    }
}
