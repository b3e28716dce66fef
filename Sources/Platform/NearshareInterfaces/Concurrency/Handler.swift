/// A function that several threads set and call through a `Mutex`.
///
/// A value of its own, because `Mutex` is generic: it wraps a function once more each time it is read, so that after
/// 100,000 reads a call would take 200,000 frames of the stack.
package struct Handler<Input, Output>: Sendable {
    private let body: @Sendable (Input) -> Output

    package init(_ body: @escaping @Sendable (Input) -> Output) { self.body = body }

    package func callAsFunction(_ input: Input) -> Output { body(input) }
}
