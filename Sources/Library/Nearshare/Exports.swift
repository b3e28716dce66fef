// One import gives a program everything that it needs.
@_exported public import NearshareBase
@_exported public import NearshareBundles
@_exported public import NearshareCrypto
@_exported public import NearshareDirect
@_exported public import NearshareEngine
@_exported public import NearshareInterfaces
@_exported public import NearshareMesh
@_exported public import NearshareStorage
