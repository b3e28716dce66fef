// `import Nearshare` is all that a program writes. Of these modules it sees only what is public: the types that stand in the
// signatures of the API. Everything else in them is `package`. See docs/decisions/one-public-module.md.
@_exported public import NearshareBase
@_exported public import NearshareCrypto
@_exported public import NearshareDirect
@_exported public import NearshareEngine
@_exported public import NearshareInterfaces
@_exported public import NearshareStorage
