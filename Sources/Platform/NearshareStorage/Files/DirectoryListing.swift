internal import CNearshareShims
internal import Glibc
internal import NearshareInterfaces

/// The names in a directory, sorted by their bytes, without `.` and `..`. One block of memory holds them: each name takes
/// six bytes besides its own, so that a million names of 20 bytes take 26 MB.
struct DirectoryListing {
    /// The entry type that readdir(3) reports, which saves a stat(2) for each entry.
    enum Kind: UInt8 {
        case unknown, file, folder, link, other
    }

    /// Records of kind, name and NUL.
    private var bytes: [UInt8] = []
    private var starts: [UInt32] = []

    var count: Int { starts.count }

    /// The memory that the names use.
    var byteCount: Int { bytes.count + starts.count * MemoryLayout<UInt32>.size }

    init(of directory: FileDescriptor) throws(StorageError) {
        let copy = nearshare_openat(directory.rawValue, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        guard copy >= 0 else { throw StorageError(errno, "could not list a folder") }
        guard let stream = fdopendir(copy) else {
            let code = errno
            close(copy)
            throw StorageError(code, "could not list a folder")
        }
        defer { closedir(stream) }
        errno = 0
        while let entry = readdir(stream) {
            // The name ends with a NUL, beyond the field's 256 bytes where a file system has longer names.
            let field = UnsafeRawPointer(entry) + Self.nameOffset
            let name = UnsafeRawBufferPointer(start: field, count: strlen(field.assumingMemoryBound(to: CChar.self)))
            if !name.elementsEqual(".".utf8), !name.elementsEqual("..".utf8) {
                starts.append(UInt32(bytes.count))
                bytes.append(Self.kind(entry.pointee.d_type).rawValue)
                bytes.append(contentsOf: name)
                bytes.append(0)
            }
            guard bytes.count < Int(UInt32.max) - 512 else { throw StorageError(.overLimit, "too many files in one folder") }
            errno = 0
        }
        guard errno == 0 else { throw StorageError(errno, "could not list a folder") }
        bytes.withUnsafeBytes { raw in
            // strcmp compares unsigned bytes; no name contains a NUL.
            starts.sort { strcmp(Self.text(raw, $0), Self.text(raw, $1)) < 0 }
        }
    }

    func kind(at index: Int) -> Kind { Kind(rawValue: bytes[Int(starts[index])]) ?? .unknown }

    func rawName(at index: Int) -> ArraySlice<UInt8> {
        let start = Int(starts[index]) + 1
        return bytes[start..<(bytes[start...].firstIndex(of: 0) ?? bytes.endIndex)]
    }

    func name(at index: Int) -> String { String(decoding: rawName(at: index), as: UTF8.self) }

    func withCName<Result, Failure: Error>(
        at index: Int, _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try bytes.withUnsafeBufferPointer { (buffer) throws(Failure) in
            try body(Self.text(UnsafeRawBufferPointer(buffer), starts[index]))
        }
    }

    private static func text(_ raw: UnsafeRawBufferPointer, _ start: UInt32) -> UnsafePointer<CChar> {
        // Safe: `start` is the offset of a record, so the buffer is not empty.
        (raw.baseAddress! + Int(start) + 1).assumingMemoryBound(to: CChar.self)
    }

    // Safe: a stored member has an offset.
    private static let nameOffset = MemoryLayout<dirent>.offset(of: \.d_name)!

    private static func kind(_ type: UInt8) -> Kind {
        switch Int(type) {
        case Int(DT_REG): .file
        case Int(DT_DIR): .folder
        case Int(DT_LNK): .link
        case Int(DT_UNKNOWN): .unknown
        default: .other
        }
    }
}
