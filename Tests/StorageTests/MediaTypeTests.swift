import FoundationEssentials
import Glibc
import NearshareBase
import NearshareCrypto
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("what content is")
struct MediaTypeTests {
    @Test("libmagic tells common content, from many threads at once")
    func detects() {
        let detector = MediaTypeDetector()
        let pngSignature: [UInt8] = [0x89] + Array("PNG\r\n\u{1a}\n".utf8)
        let lengthOfIHDR: [UInt8] = [0, 0, 0, 13]
        let samples: [(type: String, content: [UInt8])] = [
            ("image/gif", Array("GIF89a".utf8) + bytes(50)),
            ("image/png", pngSignature + lengthOfIHDR + Array("IHDR".utf8) + bytes(20)),
            ("application/pdf", Array("%PDF-1.7\n".utf8)), ("text/plain", Array("just words\n".utf8)),
        ]
        let workers = (0..<8).map { _ in
            Worker {
                for _ in 0..<50 {
                    for (type, content) in samples {
                        guard content.withUnsafeBytes({ detector.type(of: $0) }) == type else { return false }
                    }
                }
                return true
            }
        }
        for worker in workers {
            // Operations already running must not be affected.
            detector.purgeCache()
            #expect(worker.wait())
        }
    }

    @Test(
        "P14: a warning comes when name, claim and content disagree",
        arguments: [
            ("photo.jpg", nil, "application/x-dosexec", "named photo.jpg, but the content is application/x-dosexec"),
            ("photo.jpg", nil, "image/png", nil), ("song.mp3", nil, "video/mp4", nil),
            ("notes.txt", nil, "application/pdf", "named notes.txt"),
            ("paper.pdf", nil, "application/pdf", nil), ("paper.pdf", nil, "image/jpeg", "named paper.pdf"),
            ("paper.pdf", nil, "application/x-executable", "named paper.pdf"),
            ("tool", nil, "application/x-pie-executable", "this is a program"),
            ("tool.xyzzy", nil, "text/x-shellscript", "this is a program"), ("run.sh", nil, "text/x-shellscript", nil),
            ("setup.exe", nil, "application/x-dosexec", nil), ("data.bin", nil, "application/octet-stream", nil),
            ("data", "image/png", "image/jpeg", nil), ("data", "image/png", "application/zip", "sent as image/png"),
            ("data.json", nil, "application/json", nil), ("table.csv", nil, "application/csv", nil),
            ("code.ts", nil, "text/x-java", nil),
            ("x.docx", nil, "application/zip", nil), ("page.html", nil, "text/html", nil),
            ("empty.jpg", nil, "inode/x-empty", nil),
            ("a\u{1b}.jpg", nil, "application/zip", "named a\\u{1b}.jpg"),
            ("UPPER.JPG", nil, "application/x-dosexec", "named UPPER.JPG"),
            (".jpg", nil, "application/zip", nil), ("anything.jpg", nil, nil, nil),
        ] as [(String, String?, String?, String?)])
    func agreement(name: String, claimed: String?, detected: String?, warning: String?) {
        let told = ContentTypeCheck.warning(name: name, claimed: claimed, detected: detected)
        if let warning {
            #expect(told?.hasPrefix(warning) == true, "\(told ?? "nothing")")
        } else {
            #expect(told == nil)
        }
    }

    @Test("a table of types is read as far as it says something")
    func table() {
        let families = ContentTypeCheck.families(
            inTable:
                "# comment\nimage/jpeg\t\tjpg JPE\napplication/octet-stream bin\ntext/plain txt\nimage/none\n\napplication/x-sh sh\n"
        )
        #expect(families == ["jpg": .image, "jpe": .image, "txt": .text, "sh": .program])
    }
}
