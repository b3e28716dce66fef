// One import gives a program everything that it needs.
@_exported public import NearshareBase
@_exported public import NearshareCarry
@_exported public import NearshareEdges
@_exported public import NearshareMesh
@_exported public import NearshareNode
@_exported public import NearshareSecurity
@_exported public import NearshareSession
@_exported public import NearshareStorage
@_exported public import NearshareWire
