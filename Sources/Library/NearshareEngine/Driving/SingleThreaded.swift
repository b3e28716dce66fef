/// A value that several threads hold on to, and that one at a time uses, such as the sink or the reader of a transfer.
struct SingleThreaded<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}
