//! Which process uses one of NVIDIA's cards, and how much of it.

use std::collections::HashMap;

use nvml_wrapper::Device as Card;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};

use crate::gpu::{ProcessReading, percent};

/// The time of the last sample that was seen of each card, by UUID: the next call gives only newer ones.
pub(super) type LastSeen = HashMap<String, u64>;

/// Adds the processes of one card or slice.
pub(super) fn read(
    card: &Card,
    device: usize,
    uuid: Option<&str>,
    last_seen: &mut LastSeen,
    processes: &mut Vec<ProcessReading>,
) {
    // Computing, drawing, and the clients of a common server (MPS). Most processes are in one list, some in two.
    let lists = [
        card.running_compute_processes(),
        card.running_graphics_processes(),
        card.mps_running_compute_processes(),
    ];
    let mut found = join(lists.into_iter().flatten().flatten(), device);
    if found.is_empty() {
        return;
    }
    let since = uuid.and_then(|uuid| last_seen.get(uuid)).copied();
    if let Ok(samples) = card.process_utilization_stats(since) {
        if let (Some(uuid), Some(last)) = (uuid, samples.iter().map(|sample| sample.timestamp).max()) {
            last_seen.insert(uuid.into(), last);
        }
        for process in &mut found {
            process.utilisation = mean(&samples, process.pid);
        }
    }
    processes.append(&mut found);
}

/// One entry for each process. The same memory is shown in every list the process is in.
fn join(infos: impl Iterator<Item = ProcessInfo>, device: usize) -> Vec<ProcessReading> {
    let mut found: Vec<ProcessReading> = Vec::new();
    for info in infos {
        let memory = match info.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        match found.iter_mut().find(|process| process.pid == info.pid) {
            Some(process) => process.memory = process.memory.max(memory),
            None => found.push(ProcessReading { memory, ..ProcessReading::new(info.pid, device) }),
        }
    }
    found
}

/// The mean of a process's samples. Some drivers fill in numbers above 100, which mean nothing.
fn mean(samples: &[ProcessUtilizationSample], pid: u32) -> Option<u32> {
    let of_process = samples.iter().filter(|sample| sample.pid == pid);
    let known = of_process.filter_map(|sample| percent(sample.sm_util.into()));
    let (sum, count) = known.fold((0u64, 0u64), |(sum, count), value| (sum + u64::from(value), count + 1));
    percent(sum.checked_div(count)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_of_what_is_known() {
        let sample = |pid, sm_util| ProcessUtilizationSample {
            pid,
            timestamp: 1,
            sm_util,
            mem_util: 0,
            enc_util: 0,
            dec_util: 0,
        };
        for (samples, expected) in [
            (&[][..], None),
            (&[(1, 10), (1, 21), (2, 99)], Some(15)),
            (&[(1, 0)], Some(0)),
            (&[(1, 101), (1, u32::MAX)], None),
            (&[(1, 100), (1, 4_294_967_000)], Some(100)),
            (&[(2, 100)], None),
        ] {
            let samples: Vec<_> = samples.iter().map(|(pid, value)| sample(*pid, *value)).collect();
            assert_eq!(mean(&samples, 1), expected, "{samples:?}");
        }
    }

    #[test]
    fn a_process_in_two_lists_is_one() {
        let info = |pid, used_gpu_memory| ProcessInfo {
            pid,
            used_gpu_memory,
            gpu_instance_id: None,
            compute_instance_id: None,
        };
        let infos = [
            info(1, UsedGpuMemory::Used(7)),
            info(2, UsedGpuMemory::Unavailable),
            info(1, UsedGpuMemory::Used(7)),
            info(1, UsedGpuMemory::Unavailable),
        ];
        let found = join(infos.into_iter(), 3);
        let found: Vec<_> = found.iter().map(|one| (one.pid, one.device, one.memory)).collect();
        assert_eq!(found, [(1, 3, Some(7)), (2, 3, None)]);
    }
}
