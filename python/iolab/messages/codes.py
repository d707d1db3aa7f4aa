"""The module of each statement code, so that reading a record imports only the modules of its codes.

Add the code of each new statement here, below its module; a test reports missing codes.
"""

from collections.abc import Mapping

_CODES = {
    "conflicts": """
        bond-mtus-differ bridged-to-card bus-without-guest cable-end-no-host card-without-functions
        cards-on-port disk-cache-without-qemu disk-way-for-others driver-ring-fixed export-without-machine
        export-without-way function-gets-own-frames functions-too-many guest-without-card host-without-card
        hypervisor-without-address ide-ports-too-few image-qemu-old image-without-engine
        initiator-without-export installed-on-guest ipv6-mtu-small join-gives-own-frames join-on-bridged-port
        join-without-wire kernel-initiator-in-namespace l3-on-port leads-elsewhere link-mtu macvtap-finishes-nothing
        macvtap-gets-own-frames namespace-has-no-card no-nvme-initiator one-queue pair-of-two
        params-without-export parent-cpu-absent parent-memory-short parent-port-absent queues-too-few
        ring-size-absent segment-mtus-differ shared-by-namespaces switch-finishes-nothing switch-mtu-small
        throttle-without-qemu
        tunnel-in-own-bridge tunnel-mtu-large tunnel-of-packets tunnel-twice vlan-on-ipvlan xen-bus-fixed
        xen-checksum-fixed xen-ring-fixed xen-threads-fixed
    """,
    "evidence": """
        came-late cpu cpu-busy cpu-in-softirq cpu-in-steal cpu-occupied cpu-of-machine cpu-sharers cpu-stolen
        cpu-strangers cpus-busy cpus-idle cpus-taken flows-lost frames-damaged generator-ceiling generator-short
        guest-idle guest-thread-moved guest-thread-polls guest-thread-ran guest-waited lost-at lost-beside
        lost-by-receiver lost-somewhere lost-unexplained on-way-back programs-waited received-there
        receiver-ceiling receiver-held-up sender-held-up shaper-passed thread-ran thread-share thread-waited
        unknown-shaper-passed within-goal
    """,
    "commands": """
        guest-thread napi-threads no-napi-thread open-device open-macvtap open-macvtap-in open-tap open-tap-in
        other-threads reads-secret runs-as-own-user vcpu-thread
    """,
    "host_issues": """
        deep-sleep far-from-card governor-changes interrupts-move networkd-manages networkmanager-manages
        pause-frames turbo-on
    """,
    "disks": """
        acknowledged-lost at-disk bytes-throttled connection-refused depth-held disk-data-wrong disk-detached
        disk-io-failed disk-phases-too-short disk-reattached disk-server-failed disk-server-silent
        disk-store-full disk-used door-cache existing-target-server flush-not-kept guest-kernel
        iscsi-target job-keys-replaced
        ledger-open less-confined memory-not-limited nbd-server no-reply nvme-target operations-offered
        operations-throttled other-protocol process-gone process-stopped program-cache read-from-memory
        section-ledger-open section-load-short storage-daemon store-cache target-cache
    """,
    "caveats": """
        calm-too-short generator-waited no-single-thread one-after-the-other others-dropped others-on-cpu
        place-unknown queue-began-again queue-shows-fewer reason-of-others several-places shaper-suspected
        shaper-unknown window-of-second
    """,
    "drop_reasons": """
        by-codel by-filter by-loss by-loss-bursts by-loss-pattern by-rule corrupted counted-as counted-reason
        damaged far-end-down in-backlog in-line-queue in-pacer-queue in-qdisc kernel-dropped late
        longer-than-mtu lost-between never-read no-buffer not-passed-on not-passed-on-for ring-full
        several-reasons socket-full still-under-way wire-behind wire-full
    """,
    "checks": """
        accelerator-kvm accelerator-none accelerator-untold accelerator-untried af-packet-only af-xdp-first
        as-root as-user card card-coalescing card-driver card-firmware card-node card-pause changes-left
        clocksource-fast clocksource-slow cpus-enough cpus-few device-there disk-free disk-in-use
        disk-not-read disk-read-only disk-with-content disk-without drop-reasons-absent feature-absent
        feature-untried feature-works frequency-unset governor-of-cpus governors governors-of-driver held-by-lab
        host-free idle-state idle-states image-not-built images-built irqbalance-absent irqbalance-runs
        kvm-absent load-high load-low macvtap-absent macvtap-by-sudo macvtap-closed macvtap-open no-privilege
        no-user-namespaces no-xen node-cpus numa-nodes program-missing program-version qemu-not-there qemu-there
        qemu-unfit smt-off smt-on switch-lacks-qemu switch-missing switch-there tun-absent turbo-is-off
        turbo-is-on veth-by-napi vhost-net-absent xen-cpus-short xen-memory-short xen-not-paravirtual xen-room
        xen-silent
    """,
    "failures": """
        address-not-shown address-unknown agent-was-lost capture-failed counters-went-back figures-not-finite
        figures-twice files-twice frames-still-came host-unreached kind-unbuilt lab-differed-after lab-differed-before
        lab-differs lab-was-lost name-refused no-figures not-measured nothing-answered nothing-forwarded
        nothing-read-back one-at-once-failed other-failure own-defect part-broke program-failed program-killed
        program-not-started raw-not-json read-back receiver-not-reached receiver-silent report-unreadable
        reports-unreadable result-refused sending-failed several-failures time-impossible too-many two-clocks
        unarranged unit-contradicts watch-failed wrong-type
    """,
    "in_words": "in-words warning-in-words",
    "instrument": """
        further-generator-at generator-at live-frames-fail live-frames-vanish napi-at no-thread-of-its-own
        parts-share-cpu path-by-calibration path-evenness path-evenness-unknown path-fallback path-of-driver
        path-rates paths-uncompared receiver-at threads-unplaced
    """,
    "unmet": """
        capabilities-absent coalescing-absent coalescing-fixed congestion-not-allowed congestion-unknown
        control-interface cpu-absent etf-unbuilt frequency-fixed function-vlan-unbuilt governor-absent
        image-absent image-not-installed image-without-module image-without-package image-without-program
        instrument-unbuilt interface-absent interfaces-absent iscsi-driver-absent loop-unbuilt
        macvtap-not-allowed measure-unbuilt memory-short module-absent module-in-guest module-in-guests
        name-taken named-program-absent network-in-use newer-qemu-absent other-architecture pause-absent
        program-absent program-not-asked-for root-needed setting-not-permitted several-lacks site-has-ends
        site-has-place site-has-volume site-lacks-cable site-refuses site-sets-nothing switch-absent turbo-fixed
        user-namespaces-refused whole-kernel wire-unbuilt write-not-consented xen-absent
    """,
    "notes": """
        bounds-left-out effect-differs effects-aliased effects-not-fitted experiment-edited fact-differs
        host-stolen-time last-line-cut many-retransmits methods-differ methods-mixed methods-raised
        methods-unknown not-positive note-of-run rare-trials samples-unreadable too-many-levels
        trials-not-in-plan trials-not-ok trials-resemble-neighbours value-not-finite
    """,
    "instrument_warnings": """
        capture-lost capture-overwrote locks-unseen pacer-passed pacer-slipped profile-costly profile-cut
        profile-failed profile-hidden profile-lost watch-before-queue watch-by-packets watch-disagrees
        watch-lost watch-stolen watch-unstamped windows-left-out wire-by-taps wire-bypassed wire-late
        wire-marked wire-not-apart wire-reorders wire-stalled wire-unprioritised wire-unstamped
    """,
    "places": """
        all-cpus at-cpu at-cpu-of-machine at-device at-machine at-port bridge-of disk-of for-link for-machine
        for-machines for-measure for-port for-volume generator in-kernel in-kernel-of-machine in-thread key-of
        on-path on-the-way on-wire other-computer port-on receiver setting-of site-end this-computer value-of
    """,
    "programs": """
        answers-unstamped disk-stands-still figure-absent figure-absent-errors figure-ambiguous figure-cut
        figure-of-other-unit figure-unread nothing-full one-request-each output-malformed output-too-long
        own-cpus-full own-program-ran own-thread-ran program-ended-badly program-ended-early program-not-ready
        program-too-long programs-forked-away requests-late requests-refused requests-unsent round-trip-parts
        search-too-long transactions-reached
    """,
    "searches": """
        bounds-reached generator-at-its-limit generator-reached highest-forwarded interval-reached
        library-ended library-gave-up lowest-lost searches-ended time-spent trials-disagree trials-wanted
        width-reached
    """,
    "streams": """
        all-cpus-busy carrier-change carrier-lost congestion-window cpu-taken cpu-withheld datagrams-dropped
        datagrams-in-fragments datagrams-lost foreign-traffic kernel-stood-still level-changed limited
        limited-at line-full link-went-down nearly-busy nothing-found of-flow other-flows
        program-ran program-stopped program-was-stopped programs-share-cpu rate-reached receiver-window
        same-cpu segments-dropped segments-lost send-buffer shape-not-held shaper-burst shaper-let-through
        shaper-rate standing-queue strangers-ran stream-stood-still trace-capacity wire-lost
        worker-ran
    """,
    "warnings": """
        accelerator-unknown another-path cache-unknown congestion-differs connections-dropped counters-disagree
        counters-missing cpu-shared curve-partial damaged-frames datagrams-unread device-changed disk-load-short
        disk-unsteady emulated frames-left-out generator-limited host-perturbed host-unready latency-disturbed
        line-limited load-short more-by-live-frames more-senders nothing-passed other-traffic polling
        queue-took-up queues-uneven readings-dropped recording-ended search-disturbed search-partial
        segments-twice sender-at-its-limit sender-kept-cpu sender-short shape-bypassed
        shaper slow-port slower-path steps-above-line times-went-back unexplained-frames unstamped
    """,
}
"""Codes of each module in this package."""
MODULE_OF: Mapping[str, str] = {code: module for module, codes in _CODES.items() for code in codes.split()}
"""Module of each statement code."""
