internal import Nearshare

/// The views of the chat: the public room, then conversations in the order in which they were opened; and which one is visible.
struct ConversationViews: RandomAccessCollection, MutableCollection, Sendable {
    private var views = [ConversationView(.conversation(.publicRoom))]
    /// Shown until a conversation is opened.
    private var startPage = ConversationView(.startPage)
    /// Index of the visible view; nil for the start page.
    private(set) var visibleIndex: Int?
    /// The conversation that was visible before the visible view.
    private var previousConversation: Conversation?
    /// Number of times that a view was shown or opened, also for a line of a peer. Each view has the number of its last use in
    /// ``ConversationView/lastUse``.
    private var useCount = 0

    /// Limit on views: an attacker may use a new key for each line. The view that was used least recently is removed for a new
    /// one (R6).
    static let maximumCount = 300

    var startIndex: Int { views.startIndex }
    var endIndex: Int { views.endIndex }

    subscript(index: Int) -> ConversationView {
        get { views[index] }
        _modify { yield &views[index] }
    }

    var visible: ConversationView {
        get { visibleIndex.map { views[$0] } ?? startPage }
        _modify {
            if let visibleIndex { yield &views[visibleIndex] } else { yield &startPage }
        }
    }

    func index(of conversation: Conversation) -> Int? { firstIndex { $0.conversation == conversation } }

    func index(ofLookup name: String) -> Int? { firstIndex { $0.lookup?.name == name } }

    func index(ofOpenLookup name: String) -> Int? {
        firstIndex { $0.lookup?.name == name && $0.lookup?.isOpen == true }
    }

    func view(of conversation: Conversation) -> ConversationView? { index(of: conversation).map { views[$0] } }

    /// The lookups that have not ended.
    var openLookups: [ConversationView.Lookup] { compactMap(\.lookup).filter(\.isOpen) }

    // MARK: Changes

    mutating func show(_ index: Int) {
        if visibleIndex == nil {
            // Lines that were not sent from the start page are reached with the Up key.
            startPage.editor.moveTextToHistory()
            views[index].adoptInput(of: startPage)
        }
        if index != visibleIndex, let conversation = visible.conversation { previousConversation = conversation }
        visibleIndex = index
        recordUse(of: index)
    }

    /// The index of the view of a conversation, which is added if necessary.
    /// - Parameter isProtected: whether the view of a peer must stay.
    /// - Returns: nil when the limit is reached and no view can be replaced.
    mutating func open(_ conversation: Conversation, isProtected: (PeerID) -> Bool) -> Int? {
        guard let index = index(of: conversation) ?? add(.conversation(conversation), isProtected: isProtected) else {
            return nil
        }
        recordUse(of: index)
        return index
    }

    /// Adds a view, in place of another one where there are too many.
    /// - Returns: its index; nil when the limit is reached and no view can be replaced.
    mutating func add(_ subject: ConversationView.Subject, isProtected: (PeerID) -> Bool) -> Int? {
        if views.count >= Self.maximumCount {
            guard let index = replaceableIndex(isProtected: isProtected) else { return nil }
            remove(at: index)
        }
        views.append(ConversationView(subject))
        return views.count - 1
    }

    /// Makes the view of a lookup the conversation with the peer that was found, or lets the view that this conversation has
    /// adopt its input line.
    /// - Returns: the index of the conversation's view.
    mutating func resolve(at index: Int, as conversation: Conversation) -> Int {
        guard let known = self.index(of: conversation), known != index else {
            views[index].resolve(as: conversation)
            return index
        }
        let (pending, isVisible) = (views[index], visibleIndex == index)
        remove(at: index)
        let target = known > index ? known - 1 : known
        if isVisible { visibleIndex = target }
        views[target].adoptInput(of: pending)
        return target
    }

    /// Removes the view of a lookup. Where it was visible, the conversation before it is shown again, or the start page.
    mutating func discard(at index: Int) {
        let isVisible = visibleIndex == index
        remove(at: index)
        if isVisible { visibleIndex = previousConversation.flatMap { self.index(of: $0) } }
    }

    /// Orders a view that was just added, and not used, behind those that were: by the rank of its conversation, 0 for the most
    /// recent.
    mutating func orderBehindUsed(_ index: Int, rank: Int) { views[index].lastUse = -rank }

    /// Discards the requests of all views to a node that has stopped.
    mutating func discardPendingRequests() {
        for index in views.indices { views[index].discardPendingRequests() }
    }

    private mutating func recordUse(of index: Int) {
        useCount += 1
        views[index].lastUse = useCount
    }

    /// Removes a view. Where it is the visible one, the caller shows another.
    private mutating func remove(at index: Int) {
        views.remove(at: index)
        if let visibleIndex, index < visibleIndex { self.visibleIndex = visibleIndex - 1 }
    }

    /// The view that a new one replaces, whose lines stay stored at the node: the one that was used least recently, but neither
    /// the visible one, nor one with a draft. Views in which the user has written are replaced last.
    private func replaceableIndex(isProtected: (PeerID) -> Bool) -> Int? {
        func isReplaceable(_ index: Int) -> Bool {
            guard index != visibleIndex, case .peer(let peer)? = views[index].conversation else { return false }
            return !isProtected(peer) && views[index].editor.isEmpty
        }
        func rank(_ index: Int) -> (Int, Int) { (views[index].hasLocalMessages ? 1 : 0, views[index].lastUse) }
        return views.indices.filter { isReplaceable($0) }.min { rank($0) < rank($1) }
    }
}
