/// The user's setting for the lifetime of the lines of one conversation.
package enum LifetimeSetting: Sendable, Hashable, Codable {
    /// The lifetime of the configuration.
    case standard
    /// The lines stay.
    case unlimited
    case limited(MessageLifetime)

    /// - Parameter text: "default", "off", or the form of ``MessageLifetime/init(_:)``.
    package init?(_ text: String) {
        switch text {
        case "default": self = .standard
        case "off": self = .unlimited
        default:
            guard let lifetime = MessageLifetime(text) else { return nil }
            self = .limited(lifetime)
        }
    }

    /// The lifetime in force; nil where lines stay.
    /// - Parameter standard: that of the configuration; nil where lines stay.
    package func lifetime(standard: MessageLifetime?) -> MessageLifetime? {
        switch self {
        case .standard: standard
        case .unlimited: nil
        case .limited(let lifetime): lifetime
        }
    }
}

/// The lifetime of the lines of a conversation, and where it comes from.
package struct ConversationLifetime: Sendable, Hashable, Codable {
    package var setting: LifetimeSetting
    /// The lifetime of the configuration; nil where lines stay.
    package var standard: MessageLifetime?

    package init(_ setting: LifetimeSetting, standard: MessageLifetime?) {
        (self.setting, self.standard) = (setting, standard)
    }

    /// The lifetime in force; nil where lines stay.
    package var current: MessageLifetime? { setting.lifetime(standard: standard) }
}
