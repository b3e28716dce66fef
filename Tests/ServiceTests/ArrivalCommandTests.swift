import Glibc
import Nearshare
import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareService

@Suite struct ArrivalCommandTests {
    @Test("P16: a word of a command that leads into the inbox is found, however it is written")
    func words() throws {
        let scratch = ScratchFolder()
        for folder in ["inbox", "elsewhere"] {
            mkdir(scratch(folder), 0o700)
            close(open(scratch("\(folder)/handler.sh"), O_CREAT | O_WRONLY, 0o600))
        }
        symlink(scratch("inbox/handler.sh"), scratch("elsewhere/link"))
        symlink(scratch("inbox"), scratch("elsewhere/folder"))
        let inbox = scratch("inbox")
        let inside = [
            inbox, "\(inbox)/handler.sh", "\(inbox)/not-there-yet", "\(inbox)/sub/../x.sh", scratch("elsewhere/link"),
            scratch("elsewhere/folder/x"), scratch("elsewhere/../inbox/x"), "PYTHONPATH=\(inbox)", "--script=\(inbox)/x",
            "PATH=/usr/bin:\(inbox)",
        ]
        for word in inside { #expect(ArrivalCommand.isWord(word, leadingInto: inbox), "\(word)") }
        for word in ["sh", "-c", "/bin/sh", "echo", scratch("elsewhere/handler.sh"), "\(inbox)-2/x", "a=b", ""] {
            #expect(!ArrivalCommand.isWord(word, leadingInto: inbox), "\(word)")
        }
    }

    @Test("P16: a name whose first mark joins the slash before it is in the inbox like any other")
    func joiningNames() throws {
        let scratch = ScratchFolder()
        let inbox = scratch("inbox")
        mkdir(inbox, 0o700)
        for name in ["\u{ff9e}x", "\u{1f3fb}.png", "plain"] {
            close(open("\(inbox)/\(name)", O_CREAT | O_WRONLY, 0o600))
            #expect(ArrivalCommand.isPath("\(inbox)/\(name)", inside: inbox))
            #expect(ArrivalCommand.isWord("\(inbox)/\(name)", leadingInto: inbox))
            #expect("\(inbox)/\(name)".nameInParent.unicodeScalars.elementsEqual(name.unicodeScalars))
        }
        #expect(!ArrivalCommand.isPath("\(inbox)/..", inside: inbox) && !ArrivalCommand.isPath("\(inbox)-2/x", inside: inbox))
    }

    @Test("L1: a relative path, which could be an option of the command, is not in the inbox") func relativePaths() {
        let scratch = ScratchFolder()
        let inbox = scratch("inbox")
        mkdir(inbox, 0o700)
        close(open("\(inbox)/-o", O_CREAT | O_WRONLY, 0o600))
        let relative = String(repeating: "../", count: 40) + inbox.dropFirst() + "/-o"
        #expect(!ArrivalCommand.isPath(relative, inside: inbox) && ArrivalCommand.isPath("\(inbox)/-o", inside: inbox))
    }

    @Test("R8: items of one source leave room for the commands of others, whatever its keys") func shares() throws {
        let recorder = EventRecorder()
        let command = ArrivalCommand(ThreadLauncher([:]), reporter: recorder)
        var key: UInt8 = 0
        func deliver(from source: String) {
            key += 1
            let item = DeliveredItem(
                item: 0, kind: .file, claimedName: ClaimedFileName("a")!, path: "/a", isInInbox: true, size: 1,
                detectedType: nil, typeWarning: nil)
            let id = PeerID(bytes: [UInt8](repeating: key, count: 8))!
            let sender = ShownPeer(id: id, name: DisplayName(truncating: "p")!, limitSource: source)
            command.report(.delivered(item, DeliveredContent(of: item), from: sender, nil))
        }
        func warningCount() -> Int { recorder.names.filter { $0 == "warning" }.count }
        for _ in 0..<64 { deliver(from: "10.0.0.1") }
        #expect(warningCount() == 0)
        deliver(from: "10.0.0.1")
        #expect(warningCount() == 1)
        deliver(from: "10.0.0.2")
        #expect(warningCount() == 1)
    }
}
