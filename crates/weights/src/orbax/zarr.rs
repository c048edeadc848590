//! Metadata of zarr arrays, versions 2 and 3.
//!
//! Source: the Zarr specifications 2 and 3.0, and the types that TensorStore adds.

use super::chunk::{Codecs, Compression, Layout, Shards};
use super::keys::Keys;
use super::zarr_array::ZarrArray;
use crate::dtype::WeightDType;
use crate::error::{Error, Result, shortened};
use crate::npy::element;
use crate::strided::MAX_AXES;
use crate::tensor::{ByteOrder, StoredTensor};
use serde_json::Value;
use std::sync::Arc;

/// Longest metadata, in bytes, and the most levels of shards.
const MAX_METADATA: u64 = 1 << 20;
const MAX_LEVELS: usize = 4;

/// Reads the metadata of an array.
pub(super) fn open(keys: &Arc<Keys>, name: &str, key: &str) -> Result<StoredTensor> {
    let value = keys.get(key).ok_or_else(|| Error::new("its metadata is missing"))?;
    let member = keys.member(value)?;
    if member.size > MAX_METADATA {
        return Err(Error::new(format!("metadata of {} bytes", member.size)));
    }
    let json: Value = serde_json::from_slice(&member.read_all()?)
        .map_err(|error| Error::new(format!("its metadata: {}", shortened(&error.to_string()))))?;
    let array = match json["zarr_format"].as_u64() {
        Some(2) => version_2(keys, name, &json)?,
        Some(3) => version_3(keys, name, &json)?,
        _ => return Err(Error::new("its metadata is not of zarr 2 or 3")),
    };
    let (dtype, shape) = (array.dtype, array.shape.clone());
    if dtype.byte_len(&shape).is_none() {
        return Err(Error::new(format!("{dtype}{shape:?} is too large")));
    }
    Ok(StoredTensor::new(dtype, shape, array))
}

/// Returns a message about a part of the metadata that is not supported.
fn unsupported(what: &str, value: &Value) -> Error {
    Error::new(format!("{what} {} is not supported", shortened(&value.to_string())))
}

/// Returns axis sizes.
fn sizes(what: &str, value: &Value) -> Result<Vec<usize>> {
    let items = value.as_array().filter(|items| items.len() <= MAX_AXES);
    let size = |item: &Value| item.as_u64().and_then(|size| usize::try_from(size).ok());
    let sizes = items.and_then(|items| items.iter().map(size).collect::<Option<_>>());
    sizes.ok_or_else(|| unsupported(what, value))
}

/// Returns the sizes of chunks, which are not zero.
fn chunk_sizes(value: &Value, rank: usize) -> Result<Vec<usize>> {
    let chunk = sizes("the chunk shape", value)?;
    match chunk.len() == rank && !chunk.contains(&0) {
        true => Ok(chunk),
        false => Err(unsupported("the chunk shape", value)),
    }
}

/// Checks that missing chunks are zeros.
fn has_zero_fill(value: &Value) -> bool {
    value.is_null() || value.as_f64() == Some(0.0) || value.as_bool() == Some(false)
}

fn version_2(keys: &Arc<Keys>, name: &str, json: &Value) -> Result<ZarrArray> {
    let shape = sizes("the shape", &json["shape"])?;
    let chunk = chunk_sizes(&json["chunks"], shape.len())?;
    let dtype = json["dtype"].as_str().unwrap_or_default();
    let (dtype, order) = match WeightDType::of_numpy(dtype) {
        Some(dtype) => (dtype, ByteOrder::Little),
        None => element(dtype).map_err(Error::new)?,
    };
    let compression = match (&json["compressor"], json["compressor"]["id"].as_str()) {
        (Value::Null, _) => vec![],
        (_, Some("zstd")) => vec![Compression::Zstd],
        (_, Some("gzip")) => vec![Compression::Gzip],
        (_, Some("zlib")) => vec![Compression::Zlib],
        (other, _) => return Err(unsupported("the compressor", other)),
    };
    let is_empty = |filters: &Value| filters.as_array().is_some_and(Vec::is_empty);
    if !json["filters"].is_null() && !is_empty(&json["filters"]) {
        return Err(unsupported("the filter", &json["filters"]));
    }
    let axes = match json["order"].as_str() {
        Some("F") => Some((0..shape.len()).rev().collect()),
        _ => None,
    };
    let separator = match json["dimension_separator"].as_str() {
        Some("/") => '/',
        _ => '.',
    };
    Ok(ZarrArray {
        keys: keys.clone(),
        prefix: format!("{name}/"),
        scalar_key: shape.is_empty().then(|| format!("{name}/0")),
        separator,
        dtype,
        chunk,
        codecs: Codecs { order: axes, layout: Layout::Elements(order), compression },
        has_zero_fill: has_zero_fill(&json["fill_value"]),
        shape,
    })
}

fn version_3(keys: &Arc<Keys>, name: &str, json: &Value) -> Result<ZarrArray> {
    let shape = sizes("the shape", &json["shape"])?;
    let grid = &json["chunk_grid"];
    if grid["name"].as_str() != Some("regular") {
        return Err(unsupported("the chunk grid", grid));
    }
    let chunk = chunk_sizes(&grid["configuration"]["chunk_shape"], shape.len())?;
    let dtype = json["data_type"].as_str().and_then(WeightDType::of_numpy);
    let dtype = dtype.ok_or_else(|| unsupported("the type", &json["data_type"]))?;
    let encoding = &json["chunk_key_encoding"];
    let separator = encoding["configuration"]["separator"].as_str();
    let (prefix, default, scalar) = match encoding["name"].as_str() {
        Some("default") => (format!("{name}/c/"), "/", format!("{name}/c")),
        Some("v2") => (format!("{name}/"), ".", format!("{name}/0")),
        _ => return Err(unsupported("the encoding of keys", encoding)),
    };
    let (separator, prefix) = match separator.unwrap_or(default) {
        "/" => ('/', prefix),
        // The separator is also behind the `c`.
        "." => ('.', prefix.replace("/c/", "/c.")),
        _ => return Err(unsupported("the encoding of keys", encoding)),
    };
    Ok(ZarrArray {
        keys: keys.clone(),
        scalar_key: shape.is_empty().then_some(scalar),
        prefix,
        separator,
        dtype,
        codecs: codecs(&json["codecs"], &chunk, 0)?,
        chunk,
        has_zero_fill: has_zero_fill(&json["fill_value"]),
        shape,
    })
}

/// Returns the codecs of chunks of this shape.
fn codecs(value: &Value, shape: &[usize], level: usize) -> Result<Codecs> {
    let (mut order, mut layout, mut compression) = (None, None, Vec::new());
    for codec in value.as_array().map_or(&[][..], |codecs| codecs) {
        let settings = &codec["configuration"];
        match (codec["name"].as_str().unwrap_or_default(), &layout) {
            ("transpose", None) if order.is_none() => {
                let axes = sizes("the order", &settings["order"])?;
                let mut sorted = axes.clone();
                sorted.sort_unstable();
                if !sorted.into_iter().eq(0..shape.len()) {
                    return Err(unsupported("the order", &settings["order"]));
                }
                order = Some(axes);
            }
            ("bytes", None) => layout = Some(Layout::Elements(byte_order(settings)?)),
            ("sharding_indexed", None) if level < MAX_LEVELS && order.is_none() => {
                layout = Some(Layout::Shards(Box::new(shards(settings, shape, level)?)));
            }
            ("zstd", Some(_)) => compression.push(Compression::Zstd),
            ("gzip", Some(_)) => compression.push(Compression::Gzip),
            ("crc32c", Some(_)) => compression.push(Compression::Crc32c),
            _ => return Err(unsupported("the codec", codec)),
        }
    }
    let layout = layout.ok_or_else(|| unsupported("the list of codecs", value))?;
    Ok(Codecs { order, layout, compression })
}

fn byte_order(settings: &Value) -> Result<ByteOrder> {
    match settings["endian"].as_str() {
        None | Some("little") => Ok(ByteOrder::Little),
        Some("big") => Ok(ByteOrder::Big),
        Some(_) => Err(unsupported("the byte order", &settings["endian"])),
    }
}

fn shards(settings: &Value, shape: &[usize], level: usize) -> Result<Shards> {
    let chunk = chunk_sizes(&settings["chunk_shape"], shape.len())?;
    let index = codecs(&settings["index_codecs"], &[], level + 1)?;
    let index_order = match (index.order, index.layout) {
        (None, Layout::Elements(order)) => order,
        _ => return Err(unsupported("the index", &settings["index_codecs"])),
    };
    let index_has_checksum = match index.compression[..] {
        [] => false,
        [Compression::Crc32c] => true,
        _ => return Err(unsupported("the index", &settings["index_codecs"])),
    };
    Ok(Shards {
        codecs: codecs(&settings["codecs"], &chunk, level + 1)?,
        chunk,
        index_order,
        index_has_checksum,
        index_is_first: settings["index_location"].as_str() == Some("start"),
    })
}
