//! Queries of NVML that `nvml-wrapper` does not support: traffic and remote ends of NVLinks, and the links of a GPU to the processors.
//!
//! NVML expects the number of a link in `scopeId` of a field value, which `nvml-wrapper` does not set, and its query for the
//! type of the remote device discards the result.

use nvml_wrapper::Device;
use nvml_wrapper_sys::bindings::{
    field_id::{
        NVML_FI_DEV_C2C_LINK_COUNT, NVML_FI_DEV_C2C_LINK_GET_MAX_BW, NVML_FI_DEV_C2C_LINK_GET_STATUS,
        NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
    },
    nvmlFieldValue_t, nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_GPU as TO_GPU,
    nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_UNKNOWN as TO_UNKNOWN, nvmlValue_t,
};

/// NVML's return code of success, and its types of whole numbers.
const SUCCESS: u32 = 0;
const UNSIGNED_INT: u32 = 1;
const UNSIGNED_LONG: u32 = 2;
const UNSIGNED_LONG_LONG: u32 = 3;

/// The payload that one link has transferred since the driver started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The number of the link on the GPU.
    pub link: u32,
    /// Bytes sent by the GPU.
    pub sent_bytes: u64,
    /// Bytes received by the GPU.
    pub received_bytes: u64,
}

/// The traffic of these links of a GPU, since driver 450; links without counters are left out.
pub fn traffic(gpu: &Device<'_>, links: &[u32]) -> Vec<Traffic> {
    let both = [NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX];
    let queries = |link: u32| both.map(|field| (field, link));
    let queries: Vec<_> = links.iter().copied().flat_map(queries).collect();
    let values = values(gpu, &queries);
    let of_link = |(&link, values): (&u32, &[Option<u64>])| {
        let &[Some(sent), Some(received)] = values else { return None };
        // NVML counts KiB.
        let (sent_bytes, received_bytes) = (sent.checked_mul(1024)?, received.checked_mul(1024)?);
        Some(Traffic { link, sent_bytes, received_bytes })
    };
    links.iter().zip(values.chunks(2)).filter_map(of_link).collect()
}

/// Whether the remote end of a link is a GPU rather than a switch; `None` if the driver does not report it.
pub fn leads_to_gpu(gpu: &Device<'_>, link: u32) -> Option<bool> {
    let Ok(query) = &gpu.nvml().lib().nvmlDeviceGetNvLinkRemoteDeviceType else { return None };
    let mut end = TO_UNKNOWN;
    // SAFETY: the handle belongs to a device that keeps its library loaded, the function is from this library, and it writes
    // one number, to a valid address.
    let code = unsafe { query(gpu.handle(), link, &raw mut end) };
    (code == SUCCESS && end != TO_UNKNOWN).then_some(end == TO_GPU)
}

/// The bandwidth of all active C2C links of a GPU (of a Grace Hopper superchip to its processors) in one direction, in bytes per
/// second; `None` without such links.
pub fn processor_bandwidth(gpu: &Device<'_>) -> Option<u64> {
    const MOST: u64 = 64;
    let count = values(gpu, &[(NVML_FI_DEV_C2C_LINK_COUNT, 0)]).first().copied().flatten()?;
    let links = 0..u32::try_from(count.min(MOST)).ok()?;
    let queries = |link: u32| {
        [NVML_FI_DEV_C2C_LINK_GET_STATUS, NVML_FI_DEV_C2C_LINK_GET_MAX_BW].map(|field| (field, link))
    };
    let values = values(gpu, &links.flat_map(queries).collect::<Vec<_>>());
    // In MB/s; more than 10 TB/s is implausible.
    let active = values.chunks(2).filter_map(|link| match *link {
        [Some(1), Some(megabytes)] => Some(megabytes),
        _ => None,
    });
    let megabytes: u64 = active.filter(|megabytes| *megabytes < 10_000_000).sum();
    (megabytes > 0).then_some(megabytes * 1_000_000)
}

/// The values of fields, each with a scope; `None` for unsupported ones.
fn values(gpu: &Device<'_>, fields: &[(u32, u32)]) -> Vec<Option<u64>> {
    let Ok(query) = &gpu.nvml().lib().nvmlDeviceGetFieldValues else { return Vec::new() };
    let Ok(count) = i32::try_from(fields.len()) else { return Vec::new() };
    let blank = |&(field, scope): &(u32, u32)| nvmlFieldValue_t {
        fieldId: field,
        scopeId: scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: UNSIGNED_LONG_LONG,
        nvmlReturn: u32::MAX,
        value: nvmlValue_t { ullVal: 0 },
    };
    let mut values: Vec<_> = fields.iter().map(blank).collect();
    // SAFETY: the handle belongs to a device that keeps its library loaded, the function is from this library, and the array
    // has `count` members.
    let code = unsafe { query(gpu.handle(), count, values.as_mut_ptr()) };
    if code != SUCCESS {
        return Vec::new();
    }
    let number = |value: nvmlFieldValue_t| {
        if value.nvmlReturn != SUCCESS {
            return None;
        }
        // SAFETY: all members of the union are plain numbers, all of its bytes are initialized, and `valueType` selects the member.
        unsafe {
            match value.valueType {
                UNSIGNED_INT => Some(u64::from(value.value.uiVal)),
                UNSIGNED_LONG | UNSIGNED_LONG_LONG => Some(value.value.ullVal),
                _ => None,
            }
        }
    };
    values.into_iter().map(number).collect()
}
