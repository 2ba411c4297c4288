//! Partitions (MIG), NVLinks, and events.

use super::{
    Attributes, Device, Duration, EventData, Events, GIB, Instant, NOT_FOUND, NOT_SUPPORTED, PciInfo, Return,
    SUCCESS, Setting, TIMEOUT, UNKNOWN, UtilizationControl, XID_EVENT, answer, c_int, c_uint, c_ulonglong,
    pci, target, thread,
};

/// The MIG mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: Device,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Return {
    let split = |setting: &Setting, index: u64| {
        let is_split = setting.number("mig").is_some_and(|split| split as u64 == index);
        if is_split && setting.text("mig-fails") == Some("mode") {
            return Err(UNKNOWN);
        }
        Ok(c_uint::from(is_split))
    };
    unsafe {
        answer(device, pending, split);
        answer(device, current, split)
    }
}

/// The maximum number of partitions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Device, to: *mut c_uint) -> Return {
    unsafe { answer(device, to, |_, _| Ok(7)) }
}

/// The handle of one of two partitions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Device,
    part: c_uint,
    to: *mut Device,
) -> Return {
    let part = part as usize;
    let value = |setting: &Setting, _| match part {
        _ if setting.text("mig-fails") == Some("list") => Err(UNKNOWN),
        0 | 1 => Ok(device * 256 + part + 1),
        _ => Err(NOT_FOUND),
    };
    unsafe { answer(device, to, value) }
}

/// The attributes of a partition.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetAttributes_v2(device: Device, to: *mut Attributes) -> Return {
    unsafe {
        answer(device, to, |_, _| Ok(Attributes { multiprocessors: 60, others: [0; 7], memory_mib: 40_960 }))
    }
}

/// The compute capability.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: Device,
    major: *mut c_int,
    minor: *mut c_int,
) -> Return {
    unsafe {
        answer(device, minor, |_, _| Ok(0));
        answer(device, major, |_, _| Ok(9))
    }
}

/// The number of CUDA cores.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNumGpuCores(device: Device, to: *mut c_uint) -> Return {
    unsafe { answer(device, to, |_, _| Ok(132 * 128)) }
}

/// The state of an NVLink. Each GPU has two links to the next GPU, 0 and 1, and two to the previous one, 2 and 3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(device: Device, link: c_uint, to: *mut c_uint) -> Return {
    unsafe {
        answer(device, to, |setting, index| Ok(c_uint::from(neighbour(setting, index, link).is_some())))
    }
}

/// The PCI address of the remote end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: Device,
    link: c_uint,
    to: *mut PciInfo,
) -> Return {
    unsafe {
        answer(device, to, |setting, index| neighbour(setting, index, link).map(pci).ok_or(NOT_SUPPORTED))
    }
}

/// The type of the remote end; 0 is a GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(
    device: Device,
    link: c_uint,
    to: *mut c_uint,
) -> Return {
    unsafe {
        answer(device, to, |setting, index| neighbour(setting, index, link).map(|_| 0).ok_or(NOT_SUPPORTED))
    }
}

/// The supported event types: XID errors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(device: Device, to: *mut c_ulonglong) -> Return {
    unsafe { answer(device, to, |setting, _| if setting.has("old") { Ok(0) } else { Ok(XID_EVENT) }) }
}

/// An empty event set. Earlier events are not reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(to: *mut *mut Events) -> Return {
    let setting = Setting::now();
    setting.crash_at("events");
    let reported = setting.number("xids").unwrap_or(0);
    unsafe { to.write(Box::into_raw(Box::new(Events { watches: false, reported }))) };
    SUCCESS
}

/// Adds the events of a GPU to a set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceRegisterEvents(
    device: Device,
    kinds: c_ulonglong,
    set: *mut Events,
) -> Return {
    match target(device) {
        Ok((setting, _)) if setting.has("old") || kinds != XID_EVENT => NOT_SUPPORTED,
        Ok((_, index)) => {
            unsafe { (*set).watches |= index == 1 };
            SUCCESS
        }
        Err(code) => code,
    }
}

/// The next event of a set: XID 48, an uncorrectable memory error, or 79 of a GPU that has fallen off the bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(
    set: *mut Events,
    to: *mut EventData,
    milliseconds: c_uint,
) -> Return {
    let set = unsafe { &mut *set };
    let end = Instant::now() + Duration::from_millis(u64::from(milliseconds));
    while Instant::now() < end {
        let setting = Setting::now();
        if set.watches && setting.number("xids").unwrap_or(0) > set.reported {
            let xid = if setting.number("lost") == Some(1) { 79 } else { 48 };
            set.reported += 1;
            let event =
                EventData { device: 2, kind: XID_EVENT, data: xid, gpu_instance: 0, compute_instance: 0 };
            unsafe { to.write(event) };
            return SUCCESS;
        }
        thread::sleep(Duration::from_millis(50)); // as a driver without new events
    }
    TIMEOUT
}

/// Frees an event set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetFree(set: *mut Events) -> Return {
    drop(unsafe { Box::from_raw(set) });
    SUCCESS
}

/// The unit of the NVLink counters of an old GPU; 2 are bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkUtilizationControl(
    device: Device,
    link: c_uint,
    _counter: c_uint,
    to: *mut UtilizationControl,
) -> Return {
    let value = |setting: &Setting, index: u64| {
        old_link(setting, index, link).map(|()| UtilizationControl { units: 2, packets: 0xff })
    };
    unsafe { answer(device, to, value) }
}

/// The NVLink counters of an old GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkUtilizationCounter(
    device: Device,
    link: c_uint,
    _counter: c_uint,
    received: *mut c_ulonglong,
    sent: *mut c_ulonglong,
) -> Return {
    unsafe {
        answer(device, received, |setting, index| old_link(setting, index, link).map(|()| 2 * GIB));
        answer(device, sent, |setting, index| old_link(setting, index, link).map(|()| GIB))
    }
}

fn old_link(setting: &Setting, index: u64, link: c_uint) -> Result<(), Return> {
    let counts = setting.has("old") && neighbour(setting, index, link).is_some();
    if counts { Ok(()) } else { Err(NOT_SUPPORTED) }
}

pub(crate) fn neighbour(setting: &Setting, index: u64, link: c_uint) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    let other = match link {
        0 | 1 => index + 1,
        2 | 3 => index.checked_sub(1)?,
        _ => return None,
    };
    setting.gpus().contains(&other).then_some(other)
}
