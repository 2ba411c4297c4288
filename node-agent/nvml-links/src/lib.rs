//! What the NVLinks of a GPU carried, by link, as drivers since 450 count it, and whether they lead to another GPU.
//!
//! NVML takes the number of the link in a member of its question that `nvml-wrapper` does not let set. It does let ask where a
//! link leads, and loses the answer.

use nvml_wrapper::Device;
use nvml_wrapper_sys::bindings::{
    field_id::{NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX},
    nvmlFieldValue_t, nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_GPU as TO_GPU,
    nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_UNKNOWN as TO_UNKNOWN, nvmlValue_t,
};

/// NVML's code for an answer that is one, and its types of whole numbers.
const SUCCESS: u32 = 0;
const UNSIGNED_INT: u32 = 1;
const UNSIGNED_LONG: u32 = 2;
const UNSIGNED_LONG_LONG: u32 = 3;

/// What one link carried so far, without what the protocol adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The number that the GPU gives the link.
    pub link: u32,
    /// What went out.
    pub sent_bytes: u64,
    /// What came in.
    pub received_bytes: u64,
}

/// What these links of a GPU carried; nothing of those that are not counted.
pub fn traffic(gpu: &Device<'_>, links: &[u32]) -> Vec<Traffic> {
    let both = [NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX];
    let question = |link: u32| both.map(|field| (field, link));
    let questions: Vec<_> = links.iter().copied().flat_map(question).collect();
    let answers = values(gpu, &questions);
    let of_link = |(&link, answer): (&u32, &[Option<u64>])| {
        let &[Some(sent), Some(received)] = answer else { return None };
        // NVML counts KiB.
        let (sent_bytes, received_bytes) = (sent.checked_mul(1024)?, received.checked_mul(1024)?);
        Some(Traffic { link, sent_bytes, received_bytes })
    };
    links.iter().zip(answers.chunks(2)).filter_map(of_link).collect()
}

/// Whether a link of a GPU leads to a GPU, and not to a switch; none where the driver does not say.
pub fn leads_to_gpu(gpu: &Device<'_>, link: u32) -> Option<bool> {
    let Ok(ask) = &gpu.nvml().lib().nvmlDeviceGetNvLinkRemoteDeviceType else { return None };
    let mut end = TO_UNKNOWN;
    // SAFETY: the handle is that of a device whose library is loaded as long as it lives, the function is that of
    // this library, and it writes the one number that it is given the place of.
    let code = unsafe { ask(gpu.handle(), link, &raw mut end) };
    (code == SUCCESS && end != TO_UNKNOWN).then_some(end == TO_GPU)
}

/// The values of fields, each of a scope; none where there is none.
fn values(gpu: &Device<'_>, fields: &[(u32, u32)]) -> Vec<Option<u64>> {
    let Ok(ask) = &gpu.nvml().lib().nvmlDeviceGetFieldValues else { return Vec::new() };
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
    // SAFETY: the handle is that of a device whose library is loaded as long as it lives, the function is that of
    // this library, and the array has as many members as is said.
    let code = unsafe { ask(gpu.handle(), count, values.as_mut_ptr()) };
    if code != SUCCESS {
        return Vec::new();
    }
    let number = |value: nvmlFieldValue_t| {
        if value.nvmlReturn != SUCCESS {
            return None;
        }
        // SAFETY: all members of the union are plain numbers, all of its bytes are set, and the type says which it is.
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
