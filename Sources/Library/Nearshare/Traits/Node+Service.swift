#if ServiceLifecycle
    public import NearshareEngine
    public import ServiceLifecycle

    /// A node as a service of a group, behind the package trait `ServiceLifecycle`:
    ///
    ///     let node = try LocalMachine().startNode()
    ///     try await ServiceGroup(services: [node, server], logger: logger).run()
    extension Node: Service {
        /// Runs until the group shuts down or the task is cancelled, then stops the node and waits for its end. Returns as well
        /// when the node has been stopped.
        public func run() async throws {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { try? await gracefulShutdown() }
                group.addTask { await self.waitUntilStopping() }
                await group.next()
                group.cancelAll()
            }
            await stop()
        }
    }
#endif
