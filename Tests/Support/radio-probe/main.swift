await Probe.main()
