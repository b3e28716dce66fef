/// One key press, several characters typed at once, or a paste.
package enum TerminalKey: Sendable, Hashable {
    case text(String)
    /// A whole paste, with "\n" between its lines.
    case paste(String)
    case enter
    /// A line break inside a text: Alt-Enter or Ctrl-J.
    case lineBreak
    case backspace, delete
    case left, right, wordLeft, wordRight, home, end
    case up, down, pageUp, pageDown
    case tab, backTab
    /// The letter is in lower case.
    case control(Character)
    case alt(Character)
    case escape
}
