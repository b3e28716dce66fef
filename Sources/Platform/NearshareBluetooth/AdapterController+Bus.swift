internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

// What BlueZ tells over the bus, and what it means for the devices that are remembered.
extension AdapterController {
    func listen() throws(BusError) {
        let sender = "type='signal',sender='\(BlueZ.name)'"
        try bus.onSignal(
            matching: "\(sender),interface='\(BlueZ.properties)',member='PropertiesChanged',path_namespace='/org/bluez'"
        ) { [unowned self] message in
            guard let interface = message.string(), let changed = message.dictionary() else { return }
            let gone = message.value()?.texts ?? []
            change(message.path, interface, changed, gone: gone)
        }
        try bus.onSignal(matching: "\(sender),interface='\(BlueZ.objectManager)',member='InterfacesAdded'") {
            [unowned self] message in
            guard let path = message.objectPath(), let interfaces = message.interfaces() else { return }
            take([path: interfaces], areNew: true)
        }
        try bus.onSignal(matching: "\(sender),interface='\(BlueZ.objectManager)',member='InterfacesRemoved'") {
            [unowned self] message in
            guard let path = message.objectPath(), let interfaces = message.value()?.texts else { return }
            remove(path, interfaces)
        }
        let owners = "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='\(BlueZ.name)'"
        try bus.onSignal(matching: owners) { [unowned self] _ in daemonChanged() }
    }

    /// - Parameter areNew: whether BlueZ has just learned of them.
    func take(_ objects: BlueZ.Objects, areNew: Bool = false) {
        for (path, interfaces) in objects {
            if path == adapter.path, let properties = interfaces[BlueZ.adapter] {
                adapter.isThere = true
                setPowered(properties["Powered"]?.flag ?? true)
            }
            guard path.hasPrefix(adapter.path + "/") else { continue }
            if let properties = interfaces[BlueZ.device] { takeDevice(path, properties, isNew: areNew) }
            if let properties = interfaces[BlueZ.characteristic] { takeCharacteristic(path, properties) }
        }
    }

    private func takeDevice(_ path: String, _ properties: BlueZ.Properties, isNew: Bool) {
        guard neighbours[path] == nil else { return change(path, BlueZ.device, properties, gone: []) }
        guard let text = properties["Address"]?.text,
            let address = BluetoothAddress(text, kind: properties["AddressType"]?.text ?? "public"),
            let room = neighbours.room(forStrength: properties["RSSI"]?.integer ?? Neighbour.weakest)
        else { return }
        if case .taken(let other) = room { forget(other) }
        neighbours[path] = Neighbour(path: path, address: address, since: .now)
        neighbours[path]!.isNew = isNew && properties["RSSI"] == nil
        change(path, BlueZ.device, properties, gone: [])
    }

    /// One that was not worth remembering may be by now: it has come nearer, or others have gone.
    private func lookAtStranger(_ path: String, strength: Int, at now: MonotonicInstant) {
        guard now >= strangersFrom, path.hasPrefix(adapter.path + "/dev_"), neighbours.room(forStrength: strength) != nil else {
            return
        }
        strangersFrom = now + Self.strangerPause
        let call = BlueZ.call(path, BlueZ.properties, "GetAll", [.string(BlueZ.device)])
        try? bus.call(call, timeout: Self.connectTime) { [weak self] result in
            guard let self, let properties = (try? result.get())?.dictionary(), neighbours[path] == nil else { return }
            takeDevice(path, properties, isNew: false)
        }
    }

    private func takeCharacteristic(_ path: String, _ properties: BlueZ.Properties) {
        guard let device = devicePath(of: path), neighbours[device] != nil, let uuid = properties["UUID"]?.text else { return }
        chat.tookCharacteristic(path, uuid: uuid.lowercased(), of: device)
        switch uuid.lowercased() {
        case GATTProfile.meshCharacteristic: neighbours[device]!.meshPath = path
        case GATTProfile.recordCharacteristic: neighbours[device]!.recordPath = path
        default: break
        }
    }

    /// Of an object below a device.
    private func devicePath(of path: String) -> String? {
        let parts = path.split(separator: "/")
        guard parts.count > 4, parts[3].hasPrefix("dev_") else { return nil }
        return "/" + parts[..<4].joined(separator: "/")
    }

    private func change(_ path: String, _ interface: String, _ changed: BlueZ.Properties, gone: [String]) {
        if path == adapter.path, interface == BlueZ.adapter, let isPowered = changed["Powered"]?.flag {
            return setPowered(isPowered)
        }
        if interface == BlueZ.characteristic, let value = changed["Value"]?.bytes {
            return chat.valueChanged(path, value, at: .now)
        }
        guard interface == BlueZ.device else { return }
        guard neighbours[path] != nil else {
            if let strength = changed["RSSI"]?.integer { lookAtStranger(path, strength: strength, at: .now) }
            return
        }
        if let name = changed["Name"]?.text { neighbours[path]!.name = name }
        if let uuids = changed["UUIDs"]?.texts {
            neighbours[path]!.speaksMesh = uuids.contains { $0.lowercased() == GATTProfile.meshService }
            neighbours[path]!.isKnownByHeart = uuids.contains { $0.lowercased() == GATTProfile.attributeService }
            neighbours[path]!.chats = uuids.contains { $0.lowercased() == BlueChat.service }
        }
        if changed["Paired"]?.flag == true || changed["Trusted"]?.flag == true { neighbours[path]!.isBonded = true }
        if let strength = changed["RSSI"]?.integer {
            neighbours[path]!.isHeard = true
            neighbours[path]!.isNew = false
            neighbours[path]!.strength = strength
        }
        if gone.contains("RSSI") { neighbours[path]!.isHeard = false }
        noteChat(path)
        if let isResolved = changed["ServicesResolved"]?.flag {
            neighbours[path]!.isResolved = isResolved
            resolve(path)
            if isResolved { chat.subscribe(path) }
        }
        if let isConnected = changed["Connected"]?.flag {
            if isConnected, !neighbours[path]!.isConnected, !neighbours[path]!.phase.isConnecting {
                neighbours[path]!.wasConnectedTo(at: .now)
                server.connectionsChanged(at: .now)
            }
            if !isConnected, neighbours[path]!.isConnected { server.connectionsChanged(at: .now) }
            neighbours[path]!.isConnected = isConnected
            if !isConnected { disconnected(path) }
        }
    }

    private func remove(_ path: String, _ interfaces: [String]) {
        if path == adapter.path, interfaces.contains(BlueZ.adapter) {
            adapter.isThere = false
            return setPowered(false)
        }
        if interfaces.contains(BlueZ.device) { forget(path) }
        if interfaces.contains(BlueZ.characteristic), let device = devicePath(of: path), neighbours[device] != nil {
            if neighbours[device]!.meshPath == path { neighbours[device]!.meshPath = nil }
            if neighbours[device]!.recordPath == path { neighbours[device]!.recordPath = nil }
        }
    }

    private func setPowered(_ isPowered: Bool) {
        guard adapter.isPowered != isPowered else { return }
        adapter.isPowered = isPowered
        if isPowered {
            renewAt = .now
        } else {
            dropAll()
        }
    }

    /// What the old one had registered, and all its objects, went with it.
    private func daemonChanged() {
        dropAll()
        adapter.isPowered = false
        // It comes in the middle of its own start.
        renewAt = .now + .seconds(1)
    }
}
