//! Tests of the disk programs on files of a real file system, with a clock that the test advances.

#![allow(clippy::unwrap_used)] // a test that cannot go on must fail

use std::fs;
use std::os::unix::fs::{symlink, FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use iolab_disk::{
    run, Bonnie, Cache, CacheState, Claim, Cool, Data, DiskError, Edition, Hdparm, Report, Request, Stamp,
    Target, Thput, Timing, Verify,
};
use tempfile::TempDir;

/// Create a folder on the disk of the build folder, because a file system in memory has no uncached pages.
fn folder() -> TempDir {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// Return a clock whose readings are `step_ns` apart.
fn clocked(request: &Request, step_ns: u64) -> Result<(Report, Vec<String>), DiskError> {
    let now = AtomicU64::new(0);
    let clock = || now.fetch_add(step_ns, Ordering::Relaxed);
    let mut told = Vec::new();
    let report = run(request, &clock, &mut |line| told.push(line.to_owned()))?;
    Ok((report, told))
}

fn thput(folder: &Path) -> Thput {
    Thput {
        folder: folder.into(),
        size_bytes: 1 << 20,
        buffers_bytes: vec![512, 65536],
        data: Data::Incompressible,
        cache: Cache::Cold,
        behind: Vec::new(),
        direct: false,
    }
}

fn bonnie(folder: &Path, edition: Edition) -> Bonnie {
    Bonnie {
        folder: folder.into(),
        size_bytes: 4 << 20,
        edition,
        files: 20,
        data: Data::Defined,
        cache: Cache::AsLeft,
        behind: Vec::new(),
        seed: 1,
        rest_ms: 0,
    }
}

fn complaint(request: &Request) -> String {
    clocked(request, 1).map(|_| ()).unwrap_err().to_string()
}

fn left(folder: &TempDir) -> usize {
    fs::read_dir(folder.path()).unwrap().count()
}

#[test]
fn thput_fsys_writes_flushes_and_reads_with_every_buffer_size() {
    let folder = folder();
    let (report, _) = clocked(&Request::Thput(thput(folder.path())), 10).unwrap();
    let seen: Vec<_> =
        report.phases.iter().map(|one| (one.name, one.block_bytes, one.bytes, one.operations)).collect();
    let all = 1 << 20;
    assert_eq!(
        seen,
        [
            ("write", 512, all, 2048),
            ("read", 512, all, 2048),
            ("write", 65536, all, 16),
            ("read", 65536, all, 16)
        ]
    );
    for phase in &report.phases {
        let steps = phase.steps;
        assert_eq!(steps.open_ns + steps.transfer_ns + steps.flush_ns + steps.close_ns, phase.duration_ns);
        assert_eq!(steps.flush_ns > 0, phase.name == "write");
    }
    assert_eq!(left(&folder), 0, "its file goes");
}

#[test]
fn cold_cache_is_verified_and_an_untouched_cache_is_reported_as_warm() {
    let folder = folder();
    let (report, _) = clocked(&Request::Thput(thput(folder.path())), 10).unwrap();
    let seen = report.phases[1].cache.clone().unwrap();
    assert_eq!((seen.state, seen.resident_bytes, seen.of_bytes), (CacheState::Cold, 0, 1 << 20));
    let as_left = Thput { cache: Cache::AsLeft, ..thput(folder.path()) };
    let (report, _) = clocked(&Request::Thput(as_left), 10).unwrap();
    assert_eq!(report.phases[1].cache.clone().unwrap().state, CacheState::Warm);
}

#[test]
fn cache_state_of_a_file_is_read_without_changing_it() {
    let folder = folder();
    let path = folder.path().join("f");
    fs::write(&path, vec![1; 65536]).unwrap();
    let look = Request::Cool(Cool { path: path.clone(), drop: false });
    assert_eq!(clocked(&look, 1).unwrap().0.cache.unwrap().state, CacheState::Warm);
    let (report, _) = clocked(&Request::Cool(Cool { path, drop: true }), 1).unwrap();
    let cold = report.cache.unwrap();
    assert_eq!((cold.state, cold.dirty_bytes.unwrap_or(0)), (CacheState::Cold, 0), "it was flushed");
}

#[test]
fn bonnie_editions_differ_in_single_bytes_flushes_and_seeks() {
    let folder = folder();
    let (old, _) = clocked(&Request::Bonnie(bonnie(folder.path(), Edition::V1_03)), 10).unwrap();
    let (new, _) = clocked(&Request::Bonnie(bonnie(folder.path(), Edition::V2_00)), 10).unwrap();
    let names: Vec<_> = old.phases.iter().map(|phase| phase.name).collect();
    assert_eq!(names[..6], ["put-byte", "put-block", "rewrite", "get-byte", "get-block", "seeks"]);
    assert_eq!(
        names[6..],
        [
            "create-sequential",
            "stat-sequential",
            "delete-sequential",
            "create-random",
            "stat-random",
            "delete-random"
        ]
    );
    let operations = |report: &Report, at: usize| report.phases[at].operations;
    assert_eq!((operations(&old, 0), operations(&new, 0)), (4 << 20, 3 << 20));
    assert_eq!((operations(&old, 5), operations(&new, 5)), (8000, 8192));
    assert_eq!((operations(&old, 6), operations(&new, 11)), (20, 20));
    for (before, after) in old.phases.iter().zip(&new.phases).take(5) {
        assert_eq!(before.steps.flush_ns, 0, "{}", before.name);
        assert!(after.steps.flush_ns > 0, "{}", after.name);
    }
    assert_eq!(new.phases[2].bytes, 4 << 20, "what is rewritten counts once");
    assert_eq!(left(&folder), 0);
}

#[test]
fn hdparm_reads_for_its_duration_or_to_the_end() {
    let folder = folder();
    let path = folder.path().join("disk");
    fs::write(&path, vec![1; 16 << 20]).unwrap();
    let asked = |timings| {
        Request::Hdparm(Hdparm {
            device: path.clone(),
            timings,
            cache: Cache::Cold,
            behind: Vec::new(),
            direct: false,
        })
    };
    let (whole, _) = clocked(&asked(vec![Timing::Buffered]), 10).unwrap();
    assert_eq!((whole.phases[0].bytes, whole.phases[0].operations), (16 << 20, 8));
    let (short, _) = clocked(&asked(vec![Timing::Buffered, Timing::Cached]), 500_000_000).unwrap();
    assert_eq!((short.phases[0].name, short.phases[0].operations), ("buffered", 5));
    assert_eq!((short.phases[1].name, short.phases[1].operations), ("cached", 3));
}

#[test]
fn foreign_folders_and_folders_behind_links_are_refused() {
    let folder = folder();
    let open = folder.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(complaint(&Request::Thput(thput(&open))).contains("that nobody else may write"));
    let behind = folder.path().join("link");
    let real = folder.path().join("real");
    fs::create_dir(&real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&real, &behind).unwrap();
    assert!(complaint(&Request::Thput(thput(&behind))).contains("without symbolic links"));
    assert!(complaint(&Request::Thput(thput(&behind.join(".")))).contains("without symbolic links"));
}

#[test]
fn program_that_would_leave_less_than_a_tenth_of_the_file_system_free_is_refused() {
    let folder = folder();
    let asked = Thput { size_bytes: 1 << 50, ..thput(folder.path()) };
    assert!(complaint(&Request::Thput(asked)).contains("a tenth of the file system stays free"));
    assert_eq!(left(&folder), 0);
}

fn stamps(folder: &Path) -> Stamp {
    let target = Target::File { folder: folder.into(), name: "store".into() };
    Stamp { target, run: 99, block_bytes: 4096, blocks: 64, batch: 16, passes: 2 }
}

#[test]
fn every_flush_is_reported_and_every_kept_stamp_is_found() {
    let folder = folder();
    let stamp = stamps(folder.path());
    let (_, told) = clocked(&Request::Stamp(stamp.clone()), 1).unwrap();
    assert_eq!(told.len(), 8);
    assert_eq!(told[7], r#"{"acknowledged":8}"#);
    let verify = |acknowledged| {
        let asked = Request::Verify(Verify { stamp: stamp.clone(), acknowledged, below: None });
        clocked(&asked, 1).unwrap().0.verified.unwrap()
    };
    assert_eq!((verify(8).acknowledged, verify(8).kept), (64, 64));
    assert_eq!((verify(2).acknowledged, verify(2).kept), (32, 32));

    let store = fs::OpenOptions::new().write(true).open(folder.path().join("store")).unwrap();
    store.write_all_at(&[0xff], 5 * 4096 + 100).unwrap();
    store.set_len(63 * 4096).unwrap();
    let seen = verify(8);
    assert_eq!((seen.kept, seen.lost, seen.first_bad), (62, 2, vec![5, 63]));
    // Simulate storage that acknowledged a third pass and stored none of its blocks.
    let seen = verify(12);
    assert_eq!((seen.kept, seen.stale), (0, 62));
}

#[test]
fn stamps_overwrite_no_existing_file_and_are_read_through_no_link() {
    let folder = folder();
    let store = folder.path().join("store");
    let neighbour = folder.path().join("neighbour");
    fs::write(&neighbour, "precious").unwrap();
    let stamp = Request::Stamp(stamps(folder.path()));
    let verify = Request::Verify(Verify { stamp: stamps(folder.path()), acknowledged: 1, below: None });
    symlink(&neighbour, &store).unwrap();
    assert!(complaint(&stamp).contains("making the file"));
    assert!(complaint(&verify).contains("opening the file"));
    fs::remove_file(&store).unwrap();
    fs::hard_link(&neighbour, &store).unwrap();
    assert!(complaint(&stamp).contains("making the file"));
    assert!(complaint(&verify).contains("left alone"));
    for name in ["", "..", "a/b", "../neighbour"] {
        let target = Target::File { folder: folder.path().into(), name: name.into() };
        clocked(&Request::Stamp(Stamp { target, ..stamps(folder.path()) }), 1).unwrap_err();
    }
    assert_eq!(fs::read_to_string(&neighbour).unwrap(), "precious");
}

#[test]
fn unclaimed_path_or_regular_file_is_never_written_as_a_device() {
    let folder = folder();
    let path = folder.path().join("f");
    fs::write(&path, "precious").unwrap();
    let asked = |claim| Request::Claim(Claim { device: path.clone(), serial: "x".into(), claim });
    assert!(complaint(&asked(false)).contains("claim it"));
    assert!(complaint(&asked(true)).contains("is no block device"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

/// The cached pages of a file behind the disk are dropped before each phase that reads with a cold cache.
#[test]
fn page_cache_of_a_file_behind_the_disk_is_dropped_before_cold_reads() {
    let folder = folder();
    let behind = folder.path().join("door");
    fs::write(&behind, vec![7; 1 << 20]).unwrap();
    let kept = || iolab_sys::page_cache::cachestat(&fs::File::open(&behind).unwrap()).map(|seen| seen.pages);
    let Ok(256) = kept() else { return }; // this kernel does not report cached pages, or the file system caches none
    let asked = Thput { behind: vec![behind.clone()], ..thput(folder.path()) };
    clocked(&Request::Thput(asked), 1000).unwrap();
    assert_eq!(kept().unwrap(), 0);
}
