# nearshare: `make demo` shows it, `make test` tests it; both install the Debian packages they need.

PREFIX ?= /usr/local
DESTDIR ?=
BINDIR = $(DESTDIR)$(PREFIX)/bin
MANDIR = $(DESTDIR)$(PREFIX)/share/man
ZSHDIR = $(PREFIX)/share/zsh/site-functions
VERSION = $(shell sed -n 's/.*current = "\(.*\)"/\1/p' Sources/Core/NearshareBase/NearshareVersion.swift)
# For each decoder and each state machine.
FUZZ_SECONDS ?= 60
HOURS ?= 1
# Those of quickTests in Package.swift, and the engine's.
ADDRESS_TESTS = Base,Crypto,Direct,Mesh,Bundle,Web,LocalSend,NetworkManager,Decoder,Simulation,Engine
# The Swift runtime goes into the binary, so that it runs where there is no Swift. No symbol in it is looked up, and its 50,000
# relocations are written as a bitmap: both together save a millisecond of every start, and 2 MiB (glibc 2.36 or later reads it).
# No library is looked for beside the binary, and the table of functions is read-only from the start. It contains no path of
# this folder. With a folder of its own for what is built, because the path is another one (packaging/at-fixed-path).
RELEASE = -c release --scratch-path .build/fixed --static-swift-stdlib -Xswiftc -use-ld=lld \
	-Xlinker --no-export-dynamic -Xlinker -z -Xlinker pack-relative-relocs \
	--disable-local-rpath -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now \
	-Xlinker $(CURDIR)/packaging/discarded-sections.ld -Xswiftc -Xfrontend -Xswiftc -no-clang-module-breadcrumbs \
	-Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=. -Xcc -ffile-prefix-map=$(CURDIR)=. -Xcxx -ffile-prefix-map=$(CURDIR)=.
BINARY = .build/fixed/release/nearshare
# Files of packaging/desktop, and their places below PREFIX/share.
MENUS = org.nearshare.nearshare.desktop:applications/org.nearshare.nearshare.desktop thunar-sendto.desktop:Thunar/sendto/nearshare.desktop \
	dolphin-servicemenu.desktop:kio/servicemenus/nearshare.desktop nearshare.nemo_action:nemo/actions/nearshare.nemo_action \
	file_manager_extension.py:nautilus-python/extensions/nearshare.py file_manager_extension.py:caja-python/extensions/nearshare.py
ICON = icons/hicolor/scalable/apps/org.nearshare.nearshare.svg
EXAMPLES = $(addprefix .build/debug/,FileDrop GameLoop GroupChat Ported SensorStream TugOfWar)
# Six tests at a time: all 1,700 at once hold over 1,024 descriptors and 2,000 threads, which many machines do not allow.
SWIFT_TEST = swift test --skip-build --experimental-maximum-parallelization-width 6

.PHONY: build release demo quick test test-bluetooth test-hotspot build-without-bluetooth check examples docs format fuzz soak kills sbom bench simulate bench-sessions bench-bluetooth
.PHONY: cost sanitize install uninstall packages packages-test completions deb tarball test-package

build: packages
	@packaging/at-fixed-path $(MAKE) --no-print-directory release
	@.ci/check-binary $(BINARY)

# The release of one product. By itself it is not reproducible.
PRODUCT ?= nearshare
release:
	swift build $(RELEASE) --product $(PRODUCT)

packages:
	@.ci/install-packages build

packages-test:
	@.ci/install-packages build test

demo: build
	@.ci/demo $(BINARY)

# Values and state machines only, for the minute between two edits: neither SQLite nor the command line is built. Each story runs
# with the first two of its seeds. What takes a core over two seconds is left to `make test`.
LONG_TESTS = DirectHandshakeTests/noDowngrade FiftyNodesTests FloodAttackTests/inflatedByOthers HostileNodesTests \
	MeshMachineTests/oneAddress MeshMachineTests/returning PacketAttackTests/floods SimulatedSessionTests/forms \
	UnsignedFieldAttackTests/honest
quick: packages
	NEARSHARE_TESTS=quick swift build --build-tests
	NEARSHARE_TESTS=quick NEARSHARE_SEED_COUNT=2 $(SWIFT_TEST) $(LONG_TESTS:%=--skip %)

test: packages-test
	swift build --build-tests
	$(SWIFT_TEST) --skip DiscoveryTests --skip SimulatedSessionTests --skip SessionSizeTests
# By themselves: they keep Swift's threads busy for as long as they take, and others wait for deadlines.
	$(SWIFT_TEST) --filter SimulatedSessionTests
	$(SWIFT_TEST) --filter SessionSizeTests
# By themselves: they wait for real multicast, and the others would keep both processors busy.
	$(SWIFT_TEST) --filter DiscoveryTests
	Tests/Scripts/run

# In a machine of its own, with a real Bluetooth stack and no radio. RADIO_TESTS= picks some: MODULE.CLASS.test…
test-bluetooth: packages
	@.ci/install-packages bluetooth
	swift build --product nearshare
	swift build --product radio-probe
	Tests/Radio/run $(RADIO_TESTS)

# In the same machine with simulated Wi-Fi devices, the real NetworkManager, and a device that joins. HOTSPOT_TESTS= picks some.
test-hotspot: packages
	@.ci/install-packages hotspot
	swift build --product nearshare
	Tests/Hotspot/run $(HOTSPOT_TESTS)

# The build without libbluetooth-dev. By itself, because everything is compiled anew for it.
build-without-bluetooth: packages
	swift build --disable-default-traits --scratch-path .build/without-bluetooth --product nearshare
	! nm .build/without-bluetooth/debug/nearshare | grep -q nearshare_l2cap

# The checks that a change has to pass besides the tests.
check: packages-test
# In two parts: it holds all files open, and many systems allow a process 1,024.
	swift format lint --strict --recursive --parallel Sources
	swift format lint --strict --recursive --parallel Tests Package.swift
	.ci/check-python
	.ci/check-imports
	.ci/check-sources
	.ci/check-threats
	.ci/check-commits
	swift build --product nearshare
	.ci/check-manual .build/debug/nearshare
	Tests/Benchmarks/cost.py .build/debug/nearshare
	.ci/check-api
	.ci/check-darwin
	.ci/check-pages
	.ci/check-unit

# Programs as users of the library would write them.
examples: packages
	swift format lint --strict --recursive --parallel Examples/Package.swift Examples/Sources Examples/Service/Package.swift Examples/Service/Sources
# A module that imports through re-exports is not always compiled anew when these change.
	rm -rf $(EXAMPLES:%=%.build)
# The modules that the tests have compiled are used again.
	swift build --package-path Examples --scratch-path .build
	.ci/check-snippets
	.ci/check-examples $(EXAMPLES)
	.ci/run-examples .build/debug
# With the traits that are off by default: by itself, because the library is compiled anew for them. The same build checks what
# programs see of them.
	swift build --package-path Examples/Service --scratch-path .build/traits
	.ci/check-api --traits
	.ci/run-examples .build/traits/debug

# Pages to read in a browser: `python3 -m http.server --directory .build/documentation` serves them.
docs: packages
	swift build --product nearshare
	rm -rf .build/symbol-graphs .build/documentation
	.ci/symbol-graphs .build/symbol-graphs
	docc convert Sources/Library/Nearshare/Nearshare.docc --additional-symbol-graph-dir .build/symbol-graphs \
		--diagnostic-level error --fallback-display-name Nearshare --fallback-bundle-identifier nearshare \
		--output-path .build/documentation

format:
	swift format --in-place --recursive --parallel Sources
	swift format --in-place --recursive --parallel Tests Examples/Package.swift Examples/Sources Examples/Service/Package.swift \
		Examples/Service/Sources Package.swift
	.ci/check-python --fix

# Fuzzes each decoder and state machine that untrusted bytes reach.
fuzz: packages
	Tests/Fuzz/run $(FUZZ_SECONDS)

# Two nodes, a session and an untrusted third for hours, killed and cut off at random.
soak: build
	@.ci/install-packages bench
	@packaging/at-fixed-path $(MAKE) --no-print-directory release PRODUCT=session-probe
	Tests/Soak/soak.py --nearshare $(BINARY) --hours $(HOURS)

# A receiver that is killed COUNT times, in every phase of a receive; a thousand take about half an hour.
COUNT ?= 1000
kills: build
	NEARSHARE=$(CURDIR)/$(BINARY) KILLS=$(COUNT) timeout 4h Tests/Scripts/run test_kills.KilledReceiverStory

# Tests of values, state machines and the engine with AddressSanitizer, then those with threads with ThreadSanitizer, each in a
# folder of its own. SANITIZED= picks others.
sanitize: packages-test
	.ci/sanitize address $(or $(SANITIZED),$(ADDRESS_TESTS))
	.ci/sanitize thread $(or $(SANITIZED),Engine)

# The bill of materials of the release, in CycloneDX.
sbom: build
	.ci/make-sbom $(BINARY) > .build/nearshare.cdx.json

# The tool writes them itself; needed when an option has changed.
completions:
	swift build --product nearshare
	.ci/make-completions .build/debug/nearshare completions

# Instructions and system calls of a transfer, against limits: a slip is seen without a clock.
cost: build
	@.ci/install-packages bench
	Tests/Benchmarks/cost.py $(BINARY)

bench: build
	@.ci/install-packages bench
	swift build -c release --static-swift-stdlib --product frames-benchmark
	swift build -c release --static-swift-stdlib --product mesh-benchmark
	python3 Tests/Benchmarks/bench.py --nearshare $(BINARY)
	python3 Tests/Benchmarks/localsend.py --nearshare $(BINARY)
	$(MAKE) bench-sessions

# A package of its own, because its rivals are: SwiftNIO, ZeroMQ, MQTT. ROUNDS= and PARTS= pick.
bench-sessions:
	@.ci/install-packages bench
	swift build -c release --package-path Tests/Benchmarks/sessions --scratch-path .build/sessions
	Tests/Benchmarks/sessions/run .build/sessions/release/session-benchmark $(ROUNDS) $(PARTS)

# Without a limit: an emulated machine says little about a radio.
bench-bluetooth: packages
	@.ci/install-packages bluetooth
	swift build -c release --product nearshare
	swift build -c release --product radio-probe
	Tests/Radio/bench

# The product's own carrier of messages in networks of 1,000 and 10,000 nodes, on virtual time. SCENARIOS= picks some of them.
simulate: packages
	swift build -c release --product bundle-simulation
	SWIFT_DETERMINISTIC_HASHING=1 .build/release/bundle-simulation $(SCENARIOS)

# A package for Debian 12 and its derivatives, in .build/packages.
deb: build
	@.ci/install-packages package
	packaging/make-package deb .build/packages

# The same for other distributions.
tarball: build
	packaging/make-package tarball .build/packages

# Installs, uses, upgrades and removes the package in a clean Debian 12.
test-package: deb tarball
	Tests/Package/run

# Builds nothing: what root has built stands in the way of the next build.
install:
	@test -x $(BINARY) || { echo 'nothing is built yet; run make first, without sudo' >&2; exit 1; }
	install -D -m 755 -s $(BINARY) $(BINDIR)/nearshare
	for page in man/*.1; do install -D -m 644 $$page $(MANDIR)/man1/$$(basename $$page); done
	for page in man/*.5; do install -D -m 644 $$page $(MANDIR)/man5/$$(basename $$page); done
	install -D -m 644 completions/nearshare.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/nearshare
	install -D -m 644 completions/_nearshare $(DESTDIR)$(ZSHDIR)/_nearshare
	install -D -m 644 completions/nearshare.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/nearshare.fish
	mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/user
	for unit in nearshare nearshare-notify; do \
		sed 's|@PREFIX@|$(PREFIX)|' docs/$$unit.service > $(DESTDIR)$(PREFIX)/lib/systemd/user/$$unit.service || exit; \
	done
# Read from these folders only, whatever the prefix is.
	mkdir -p $(DESTDIR)$(PREFIX)/share/metainfo
	sed 's|@VERSION@|$(VERSION)|; s|@DATE@|$(shell date --utc --date=@$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} +%F)|' \
		packaging/metainfo/org.nearshare.nearshare.metainfo.xml \
		> $(DESTDIR)$(PREFIX)/share/metainfo/org.nearshare.nearshare.metainfo.xml
	install -D -m 644 packaging/ufw/nearshare $(DESTDIR)/etc/ufw/applications.d/nearshare
	install -D -m 644 packaging/firewalld/nearshare.xml $(DESTDIR)/usr/lib/firewalld/services/nearshare.xml
	install -D -m 644 packaging/firewalld/nearshare-localsend.xml $(DESTDIR)/usr/lib/firewalld/services/nearshare-localsend.xml
# The entry "Send with nearshare" of file managers.
	$(foreach pair,$(MENUS),install -D -m 644 packaging/desktop/$(subst :, $(DESTDIR)$(PREFIX)/share/,$(pair)) &&) true
	install -D -m 644 packaging/desktop/org.nearshare.nearshare.svg $(DESTDIR)$(PREFIX)/share/$(ICON)

uninstall:
	$(foreach pair,$(MENUS),rm -f $(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(pair))) &&) true
	rm -f $(DESTDIR)$(PREFIX)/share/$(ICON)
	rm -f $(BINDIR)/nearshare $(MANDIR)/man1/nearshare*.1 $(MANDIR)/man5/nearshare.5
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/nearshare
	rm -f $(DESTDIR)$(ZSHDIR)/_nearshare
	rm -f $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/nearshare.fish
	rm -f $(DESTDIR)$(PREFIX)/lib/systemd/user/nearshare.service $(DESTDIR)$(PREFIX)/lib/systemd/user/nearshare-notify.service
	rm -f $(DESTDIR)$(PREFIX)/share/metainfo/org.nearshare.nearshare.metainfo.xml
	rm -f $(DESTDIR)/etc/ufw/applications.d/nearshare $(DESTDIR)/usr/lib/firewalld/services/nearshare.xml
	rm -f $(DESTDIR)/usr/lib/firewalld/services/nearshare-localsend.xml
