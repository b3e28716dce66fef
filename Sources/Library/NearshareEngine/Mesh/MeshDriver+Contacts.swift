internal import Logging
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

extension MeshDriver {
    /// Passes the user's contacts to the router and the bundles whenever their files change, until the mesh stops.
    ///
    /// The sessions of unknown peers, which cost them nothing, read no file.
    func followContacts() async {
        guard let monitor = settings.contactMonitor?() else { return }
        do throws(ThreadError) {
            let thread = try BlockingThread.start { [self] in
                var known: [PeerID: SigningPublicKey]?
                // Once without a change: the files may have changed since the router has read them.
                repeat {
                    let contacts = settings.contacts()
                    if contacts != known { setContacts(contacts) }
                    known = contacts
                } while monitor.waitForChange()
            }
            _ = await stopping.value
            monitor.close()
            await thread.join()
        } catch {
            settings.log.info("changes of the contacts go unnoticed: \(error)")
        }
    }

    private func setContacts(_ contacts: [PeerID: SigningPublicKey]) {
        update { router, _ in router.setContacts(contacts) }
        bundles.withLock { $0 }?.setContacts(contacts)
    }
}
