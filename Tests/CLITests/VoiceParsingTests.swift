import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("command lines of voice") struct VoiceParsingTests {
    @Test("record is the default subcommand")
    func record() throws {
        let record: VoiceRecordCommand = try parse(
            words("voice --to anna -o a.opus --duration 1:30 --bitrate 32 --rate 48000 --no-trim --limit 5MiB --yes --via mesh")
        )
        #expect(record.peers == ["anna"] && record.output == "a.opus" && record.yes && record.noTrim)
        #expect(record.duration?.duration == .seconds(90))
        #expect(record.bitrate?.bitsPerSecond == 32_000)
        #expect(record.rate == 48_000)
        #expect(record.limit?.bytes == 5 << 20)
        #expect(record.transport.via == .mesh)
        #expect(try parse(words("voice record"), as: VoiceRecordCommand.self).peers.isEmpty)
    }

    @Test("input files, with or without a header")
    func input() throws {
        let file: VoiceRecordCommand = try parse(words("voice --input memo.flac --to anna"))
        #expect(file.input == "memo.flac" && !file.raw)
        let raw: VoiceRecordCommand = try parse(words("voice --input - --raw --rate 8000"))
        #expect(raw.input == "-" && raw.raw && raw.rate == 8000)
    }

    @Test func `the other subcommands of voice are parsed`() throws {
        let play: VoicePlayCommand = try parse(words("voice play 3a6a21 --device alsa:hw0"))
        #expect(play.note == "3a6a21" && play.device == "alsa:hw0")
        #expect(try parse(words("voice show a.opus --json"), as: VoiceShowCommand.self).output.json)
        #expect(try parse(words("voice list --json"), as: VoiceListCommand.self).output.json)
    }

    @Test(
        arguments: [
            ("voice --via mesh", "--to"), ("voice --raw", "--input"), ("voice --input a.wav --device hw0", "--device"),
            ("voice --input a.wav --rate 48000", "--rate"), ("voice --rate 100", "8000 to 192000"),
            ("voice -o -", "pipe"), ("voice --limit 1KB", "16KiB"), ("voice --bitrate 5", "bitrate"),
            ("voice --duration 1:75", "duration"), ("voice --to 10.0.0.1:5 --via mesh", "is an address"),
            ("voice --to ben --via bluetooth --interface lo", "--interface is for the network"),
        ])
    func `invalid options of voice are rejected with a message that names them`(_ line: String, _ part: String) throws {
        let message = try #require(usageError(words(line)), "\(line) is accepted")
        #expect(message.contains(part), "\(message)")
    }

    @Test(arguments: ["voice play", "voice show", "voice play a b", "voice list a"])
    func `subcommands of voice with too few or too many arguments are rejected`(_ line: String) {
        #expect(usageError(words(line)) != nil, "\(line)")
    }
}
