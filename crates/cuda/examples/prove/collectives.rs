//! Two ranks on one GPU, which NCCL takes for two machines: what they do together against its meaning, run and replayed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use cuda::{CudaDevice, GroupId};
use ops::{Comm as _, conformance};

use crate::conformance::show;

const RANKS: usize = 2;
/// As many bytes as a rank of 256 rows and more has to give.
const LARGEST: usize = 4 << 20;

/// Starts a process for each rank; the first one makes the group.
pub(crate) fn run(_: &CudaDevice) -> bool {
    let mut first = start(0, "");
    let mut lines = BufReader::new(first.stdout.take().expect("taken once")).lines();
    let group = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let group = line.strip_prefix("group ");
        group.map(str::to_owned)
    });
    let Some(group) = group else {
        let _ = first.wait();
        println!("FAILED: the first rank has made no group");
        return false;
    };
    let others: Vec<Child> = (1..RANKS).map(|rank| start(rank, &group)).collect();
    for line in lines.map_while(Result::ok) {
        println!("{line}");
    }
    let ended = std::iter::once(first).chain(others).map(|mut rank| {
        let status = rank.wait().expect("a process that was started");
        println!("rank ended with {status}");
        status.success()
    });
    ended.fold(true, |well, ended| well & ended)
}

fn start(rank: usize, group: &str) -> Child {
    let program = std::env::current_exe().expect("a program has a name");
    let words = std::env::args().skip(1);
    let words = words.filter(|word| word != "collectives");
    let output = if rank == 0 {
        Stdio::piped()
    } else {
        Stdio::inherit()
    };
    let mut child = Command::new(program)
        .args(words)
        .arg("collective-rank")
        // two ranks of one host may not share a GPU
        .env("NCCL_HOSTID", format!("rank-{rank}"))
        .env("NCCL_SOCKET_IFNAME", "lo")
        .stdin(Stdio::piped())
        .stdout(output)
        .spawn()
        .expect("this program can be started again");
    let mut line = child.stdin.take().expect("taken once");
    // a process that has ended says so by how
    let _ = writeln!(line, "{rank} {group}");
    child
}

/// One rank, in a process of its own; which one, and of which group, comes in.
pub(crate) fn rank(device: &CudaDevice) -> bool {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    let (rank, group) = line
        .trim_end_matches('\n')
        .split_once(' ')
        .unwrap_or_default();
    let Ok(rank) = rank.parse::<usize>() else {
        println!("FAILED: this part is started by `collectives`");
        return false;
    };
    let joined = device.nccl().and_then(|nccl| {
        let id = match read_hex(group) {
            Some(bytes) => GroupId::from(bytes),
            None => nccl.group()?,
        };
        if rank == 0 {
            let number = u128::from_be_bytes;
            let parts = id.bytes().as_chunks::<16>().0.iter();
            print!("group ");
            parts.for_each(|&part| print!("{:032x}", number(part)));
            println!();
        }
        Ok(nccl.join(device, id, (rank, RANKS), LARGEST)?)
    });
    let comm = match joined {
        Ok(comm) => comm,
        Err(absent) => {
            println!("FAILED: {absent}");
            return false;
        }
    };
    println!("rank {} of {} over NCCL", comm.rank(), comm.ranks());
    show(&conformance::collectives(device, &comm))
}

fn read_hex(text: &str) -> Option<[u8; 128]> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    bytes?.try_into().ok()
}
