//! Kernel settings: files in `/proc/sys` and `/sys`, and interrupt affinities.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};

use iolab_protocol::calls::{SettingRead, SettingWrite};
use iolab_protocol::results::{SettingOriginal, SettingValue};
use iolab_protocol::{ErrorObject, Undo};

use crate::host::Host;
use crate::kernel::faults::{refused, Answer};
use crate::kernel::netns;
use crate::kernel::sync::lock;
use crate::verbs::{verb, Verb};

/// Return the verbs for settings.
pub fn verbs() -> [Verb; 2] {
    [
        verb("setting.read", |_, params| read(&params)),
        verb("setting.write", |host, params| write(host, &params)),
    ]
}

/// Answer `setting.read`.
pub fn read(params: &SettingRead) -> Answer<SettingValue> {
    Ok(SettingValue { value: read_value(&params.path, params.netns.as_deref())? })
}

/// Answer `setting.write`.
pub fn write(host: &Host, params: &SettingWrite) -> Answer<SettingOriginal> {
    check_path(&params.path)?;
    let _change = host.may_change()?;
    write_locked(host, params)
}

/// Write a setting and record its undo in the journal. The caller must have permission for changes.
pub fn write_locked(host: &Host, params: &SettingWrite) -> Answer<SettingOriginal> {
    let netns = params.netns.as_deref();
    let undo_key = undo_key(netns, &params.path);
    // The lock is held until the original value is in the journal, so that a concurrent write does not record this
    // write's value as the original.
    let _one_at_a_time = lock(&WRITING);
    let journalled = lock(&host.journal).find(&undo_key).map(|change| change.undo.clone());
    if let Some(Undo::Write { value: original, .. }) = journalled {
        write_value(&params.path, netns, &params.value)?;
        return Ok(SettingOriginal { original });
    }
    let original = restorable(&read_value(&params.path, netns)?).to_owned();
    let undo =
        Undo::Write { path: params.path.clone(), value: original.clone(), netns: params.netns.clone() };
    let sequence = host.record(&undo_key, undo)?;
    let written = write_value(&params.path, netns, &params.value);
    if written.is_err() && read_value(&params.path, netns).is_ok_and(|value| restorable(&value) == original) {
        host.mark_undone(sequence)?;
    }
    written.map(|()| SettingOriginal { original })
}

/// Return the undo key of a setting.
pub fn undo_key(netns: Option<&str>, path: &str) -> String {
    format!("setting:{}:{path}", netns.unwrap_or_default())
}

/// Return the value of a setting without its newline.
pub fn read_value(path: &str, netns: Option<&str>) -> Answer<String> {
    check_path(path)?;
    place(path)(netns, &mut || {
        let mut bytes = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(LIMIT_BYTES).read_to_end(&mut bytes));
        read.map_err(|error| refused("reading setting", path, &error))?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
    })
}

/// Write a setting without a journal entry.
pub fn write_value(path: &str, netns: Option<&str>, value: &str) -> Answer<()> {
    check_path(path)?;
    place(path)(netns, &mut || {
        let written =
            OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|error| refused("writing setting", path, &error))?;
        Ok(String::new())
    })
    .map(drop)
}

type Work<'a> = &'a mut (dyn FnMut() -> Answer<String> + Send);

/// Return the function that enters the namespace for a path. The content of `/proc/sys` depends on the namespace of the
/// calling thread, and the content of `/sys` on the namespace in which it was mounted.
fn place(path: &str) -> fn(Option<&str>, Work<'_>) -> Answer<String> {
    if path.starts_with("/sys/") {
        |netns, work| netns::within_with_sys(netns, work)
    } else {
        |netns, work| netns::within(netns, work)
    }
}

/// Refuse a path that is not a kernel setting.
pub fn check_path(path: &str) -> Answer<()> {
    let inside = path.starts_with("/proc/sys/") || path.starts_with("/sys/") || is_affinity(path);
    if inside && !path.contains('\0') && path.split('/').all(|part| part != ".." && part != ".") {
        return Ok(());
    }
    Err(ErrorObject::params(
        "a kernel setting is a file below /proc/sys or /sys, named without '.' and '..', \
         or /proc/irq/N/smp_affinity_list",
        path,
    ))
}

/// Whether a file is the affinity of an interrupt.
fn is_affinity(path: &str) -> bool {
    let number = path.strip_prefix("/proc/irq/").and_then(|rest| rest.strip_suffix("/smp_affinity_list"));
    number.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Return the text that restores `value` when it is written: for a selection such as `always [madvise] never`, only the
/// selected word.
fn restorable(value: &str) -> &str {
    let chosen = |word: &str| word.len() > 2 && word.starts_with('[') && word.ends_with(']');
    let mut words = value.split_ascii_whitespace();
    match (words.clone().count() > 1, words.find(|word| chosen(word))) {
        (true, Some(word)) => &word[1..word.len() - 1],
        _ => value,
    }
}

/// Lock that is held from the reading of an original value until the value is in the journal.
static WRITING: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Maximum length of a setting in bytes; a sysfs file has at most one page.
const LIMIT_BYTES: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_allowed_settings_folders_are_accepted() {
        for path in
            ["/proc/sys/net/ipv4/ip_forward", "/sys/class/net/eth0/mtu", "/proc/irq/24/smp_affinity_list"]
        {
            assert!(check_path(path).is_ok(), "{path}");
        }
        for path in [
            "/etc/passwd",
            "/proc/sys",
            "/proc/sys/../1/mem",
            "/sysx/a",
            "proc/sys/a",
            "",
            "/sys/./a",
            "/sys/a\0b",
            "/proc/irq/24/smp_affinity",
            "/proc/irq/../smp_affinity_list",
            "/proc/irq//smp_affinity_list",
        ] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }

    #[test]
    fn selected_word_of_a_setting_with_several_choices_is_restored() {
        assert_eq!(restorable("always [madvise] never"), "madvise");
        assert_eq!(restorable("4096\t131072\t6291456"), "4096\t131072\t6291456");
        assert_eq!(restorable("[none]"), "[none]");
    }
}
