//! Host facts from files: kernel, CPU, memory, interfaces.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use iolab_protocol::facts::{Facts, InterfaceFacts, ProcessorFacts};
use nix::sys::utsname::uname;

use crate::kernel::faults::{refused_errno, Answer};

/// Read the host facts that the kernel provides in files; programs, features and settings stay empty.
/// `known_interfaces` are the interfaces that were read before the agent entered new namespaces.
pub fn read(known_interfaces: Option<Vec<InterfaceFacts>>) -> Answer<Facts> {
    let kernel = uname().map_err(|errno| refused_errno("asking for the kernel's name", "uname", errno))?;
    let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
    let processor = file("/proc/cpuinfo").unwrap_or_default();
    let clocks = "/sys/devices/system/clocksource/clocksource0";
    Ok(Facts {
        hostname: text(kernel.nodename()),
        kernel: text(kernel.release()),
        architecture: text(kernel.machine()),
        os: file("/etc/os-release").and_then(|release| os_name(&release)),
        cpu_model: labelled(&processor, "model name").map(str::to_owned),
        microcode: labelled(&processor, "microcode").map(str::to_owned),
        firmware: firmware(|part| file(&format!("/sys/class/dmi/id/bios_{part}"))),
        cpus: file("/proc/stat")
            .map_or(0, |stat| iolab_samplers::cpu::parse(&stat).map_or(0, |cpus| cpus.len())),
        memory_bytes: file("/proc/meminfo").and_then(|memory| memory_bytes(&memory)).unwrap_or(0),
        clocksource: file(&format!("{clocks}/current_clocksource")).map(|name| name.trim().to_owned()),
        virtualization: virtualization(&Evidence {
            hypervisor: file("/sys/hypervisor/type"),
            vendor: file("/sys/class/dmi/id/sys_vendor"),
            clocks: file(&format!("{clocks}/available_clocksource")).unwrap_or_default(),
            processor: &processor,
        }),
        load_1min_milli: file("/proc/loadavg").and_then(|load| load_milli(&load)).unwrap_or(0),
        interfaces: known_interfaces.unwrap_or_else(interfaces),
        programs: BTreeMap::new(),
        features: BTreeMap::new(),
        processors: ProcessorFacts::default(),
        daemons: Vec::new(),
        settings: BTreeMap::new(),
    })
}

/// Return the interfaces in `/sys`, sorted by name.
pub fn interfaces() -> Vec<InterfaceFacts> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut interfaces: Vec<InterfaceFacts> = entries.filter_map(|entry| interface(&entry.path())).collect();
    interfaces.sort_by(|one, other| one.name.cmp(&other.name));
    interfaces
}

fn interface(folder: &Path) -> Option<InterfaceFacts> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let flags = u32::from_str_radix(read("flags")?.trim().trim_start_matches("0x"), 16).ok()?;
    let driver = fs::read_link(folder.join("device/driver")).ok();
    let driver = driver.and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    let kind = read("uevent")
        .and_then(|uevent| uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=").map(str::to_owned)));
    Some(InterfaceFacts {
        name: folder.file_name()?.to_string_lossy().into_owned(),
        driver: driver.or(kind),
        mtu: read("mtu")?.trim().parse().ok()?,
        up: flags & IFF_UP != 0,
        offloads: BTreeMap::new(),
        numa_node: read("device/numa_node").and_then(|node| node.trim().parse().ok()),
        driver_version: None,
        firmware: None,
        coalescing: BTreeMap::new(),
        pause: BTreeMap::new(),
        manager: None,
    })
}

struct Evidence<'a> {
    hypervisor: Option<String>,
    vendor: Option<String>,
    clocks: String,
    processor: &'a str,
}

/// Return the hypervisor under the names of systemd-detect-virt: `none` on bare metal; `None` if it is
/// unknown.
fn virtualization(evidence: &Evidence<'_>) -> Option<String> {
    const VENDORS: [(&str, &str); 7] = [
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("innotek", "oracle"),
        ("Microsoft", "microsoft"),
        ("Xen", "xen"),
        ("Amazon EC2", "amazon"),
        ("Google", "google"),
    ];
    const CLOCKS: [(&str, &str); 3] = [("kvm-clock", "kvm"), ("xen", "xen"), ("hyperv", "microsoft")];
    if let Some(kind) = &evidence.hypervisor {
        return Some(kind.trim().to_owned());
    }
    if let Some((_, name)) = CLOCKS.iter().find(|(clock, _)| evidence.clocks.contains(clock)) {
        return Some((*name).to_owned());
    }
    let flags = labelled(evidence.processor, "flags")?;
    if !flags.split(' ').any(|flag| flag == "hypervisor") {
        return Some("none".to_owned());
    }
    let vendor = evidence.vendor.as_deref().unwrap_or_default();
    let known = VENDORS.iter().find(|(mark, _)| vendor.contains(mark));
    Some(known.map_or("unknown", |(_, name)| name).to_owned())
}

/// Return the vendor, version and date of the machine's firmware; `None` if they are unknown.
fn firmware(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let parts = ["vendor", "version", "date"].map(|part| read(part).unwrap_or_default().trim().to_owned());
    let said: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

fn file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Return the value after `label` and a colon, as in `/proc/cpuinfo`.
fn labelled<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == label).then(|| value.trim())
    })
}

fn os_name(release: &str) -> Option<String> {
    let value = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

fn memory_bytes(memory: &str) -> Option<u64> {
    let kibibytes: u64 = labelled(memory, "MemTotal")?.trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}

fn load_milli(load: &str) -> Option<u64> {
    let (whole, hundredths) = load.split_ascii_whitespace().next()?.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 1000 + hundredths.parse::<u64>().ok()? * 10)
}

const IFF_UP: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: &str = "processor\t: 0\nmodel name\t: Intel Xeon\nflags\t\t: fpu hypervisor\n";
    const METAL: &str = "processor\t: 0\nflags\t\t: fpu sse\n";

    fn seen(hypervisor: Option<&str>, vendor: Option<&str>, clocks: &str, processor: &str) -> Option<String> {
        let (hypervisor, vendor) = (hypervisor.map(str::to_owned), vendor.map(str::to_owned));
        virtualization(&Evidence { hypervisor, vendor, clocks: clocks.to_owned(), processor })
    }

    #[test]
    fn hypervisor_is_detected_from_guest_files() {
        assert_eq!(seen(Some("xen\n"), None, "tsc xen", METAL).as_deref(), Some("xen"));
        assert_eq!(seen(None, None, "tsc kvm-clock", GUEST).as_deref(), Some("kvm"));
        assert_eq!(seen(None, Some("VMware, Inc."), "tsc", GUEST).as_deref(), Some("vmware"));
        assert_eq!(seen(None, None, "tsc", GUEST).as_deref(), Some("unknown"));
        assert_eq!(seen(None, Some("Dell"), "tsc hpet", METAL).as_deref(), Some("none"));
        assert_eq!(seen(None, None, "arch_sys_counter", "processor\t: 0\n"), None);
    }

    #[test]
    fn missing_firmware_information_of_a_machine_is_none() {
        let seen = |part: &str| (part != "date").then(|| format!("{part}\n"));
        assert_eq!(firmware(seen).as_deref(), Some("vendor version"));
        assert_eq!(firmware(|_| None), None);
    }

    #[test]
    fn load_memory_os_name_and_cpu_model_are_parsed() {
        assert_eq!(load_milli("1.25 0.4 0.3 1/100 5\n"), Some(1250));
        assert_eq!(memory_bytes("MemTotal:       24684084 kB\nMemFree: 1 kB\n"), Some(25_276_502_016));
        assert_eq!(os_name("ID=debian\nPRETTY_NAME=\"Debian 12\"\n").as_deref(), Some("Debian 12"));
        assert_eq!(labelled(GUEST, "model name"), Some("Intel Xeon"));
    }
}
