//! Reads the header of GGUF files, in either byte order.

use super::GgmlType;
use crate::dtype::WeightDType;
use crate::error::{Error, Result, shortened};
use crate::metadata::WeightMetadata;
use crate::source::{ByteFolder, ByteSource, Cursor};
use crate::tensor::{ByteOrder, FileRange, ReadElements, StoredTensor};
use crate::weights::Contents;

/// Most axes of a tensor.
const MAX_AXES: u32 = 8;

/// Most levels of lists in lists.
const MAX_DEPTH: usize = 8;

/// The key of the alignment of tensors, and its value if it is missing.
pub(super) const ALIGNMENT: &str = "general.alignment";
pub(super) const DEFAULT_ALIGNMENT: u64 = 32;

/// Most files of a model.
const MAX_FILES: usize = 10_000;

/// Reads a file, and the other files if it is the first of several
/// (`model-00001-of-00003.gguf`).
pub(crate) fn read(
    source: &ByteSource,
    name: &str,
    siblings: Option<&ByteFolder>,
) -> Result<Contents> {
    let mut contents = read_one(source)?;
    let count = contents.metadata.get("split.count").and_then(WeightMetadata::as_usize);
    let count = count.unwrap_or(1);
    let is_first = |contents: &Contents| {
        let number = contents.metadata.get("split.no").and_then(WeightMetadata::as_usize);
        number.unwrap_or(0) == 0
    };
    if count <= 1 {
        return Ok(contents);
    }
    let suffix = format!("-00001-of-{count:05}.gguf");
    let (Some(stem), Some(folder)) = (name.strip_suffix(&suffix), siblings) else {
        return Err(Error::new(format!(
            "GGUF: the model is in {count} files, and `{}` is not called `…{suffix}`\n  help: \
             open the first file, in a folder with the others",
            shortened(name)
        )));
    };
    if count > MAX_FILES || !is_first(&contents) {
        return Err(Error::new(format!("GGUF: the file is not the first of at most {MAX_FILES}")));
    }
    for number in 2..=count {
        let part = format!("{stem}-{number:05}-of-{count:05}.gguf");
        let file = folder.file(&part)?;
        let file = file.ok_or_else(|| Error::new(format!("the file `{part}` is missing")))?;
        let other = read_one(&file).map_err(|error| error.within(&part))?;
        for (name, tensor) in other.tensors {
            contents.insert(name, tensor)?;
        }
    }
    Ok(contents)
}

/// Reads a file.
fn read_one(source: &ByteSource) -> Result<Contents> {
    let mut header = HeaderReader { cursor: source.cursor(4), order: ByteOrder::Little };
    let contents = header.read(source);
    contents.map_err(|error| error.within(&format!("GGUF, byte {}", header.cursor.position())))
}

struct HeaderReader {
    cursor: Cursor,
    order: ByteOrder,
}

/// A tensor of the header.
struct TensorInfo {
    name: String,
    shape: Vec<usize>,
    dtype: WeightDType,
    offset: u64,
}

impl HeaderReader {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = self.cursor.array::<N>()?;
        if self.order == ByteOrder::Big {
            bytes.reverse();
        }
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String> {
        let length = self.u64()?;
        let text = String::from_utf8(self.cursor.read_bytes(length)?);
        text.map_err(|_| Error::new("text is not UTF-8"))
    }

    fn read(&mut self, source: &ByteSource) -> Result<Contents> {
        let version = self.cursor.array::<4>()?;
        self.order = match (u32::from_le_bytes(version), u32::from_be_bytes(version)) {
            (2 | 3, _) => ByteOrder::Little,
            (_, 2 | 3) => ByteOrder::Big,
            (1, _) => return Err(Error::new("version 1 is not supported, convert it to 3")),
            (other, _) => return Err(Error::new(format!("unknown version {other}"))),
        };
        let (tensors, values) = (self.u64()?, self.u64()?);
        let mut contents = Contents::default();
        // Every loop reads bytes, so a wrong count ends at the end of the file.
        for _ in 0..values {
            let key = self.text()?;
            let kind = self.u32()?;
            let value = self.value(kind, 0)?;
            contents.metadata.insert(key, value);
        }
        let mut infos = Vec::new();
        for _ in 0..tensors {
            infos.push(self.tensor()?);
        }
        let alignment = match contents.metadata.get(ALIGNMENT) {
            None => Some(DEFAULT_ALIGNMENT),
            Some(value) => value.as_usize().map(|value| value as u64).filter(|&value| value > 0),
        };
        let alignment = alignment.ok_or_else(|| Error::new("the alignment is not positive"))?;
        let start = self.cursor.position().checked_next_multiple_of(alignment);
        let start = start.ok_or_else(|| Error::new("the alignment is too large"))?;
        for info in infos {
            let name = info.name.clone();
            let tensor = self.stored(source, start, info);
            let part = || format!("tensor `{}`", shortened(&name));
            let tensor = tensor.map_err(|error| error.within(&part()))?;
            contents.insert(name, tensor)?;
        }
        Ok(contents)
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<WeightMetadata> {
        if depth > MAX_DEPTH {
            return Err(Error::new(format!("more than {MAX_DEPTH} levels of lists")));
        }
        let int = |value: i64| WeightMetadata::Int(value);
        Ok(match kind {
            0 => int(u8::from_le_bytes(self.array()?).into()),
            1 => int(i8::from_le_bytes(self.array()?).into()),
            2 => int(u16::from_le_bytes(self.array()?).into()),
            3 => int(i16::from_le_bytes(self.array()?).into()),
            4 => int(self.u32()?.into()),
            5 => int(i32::from_le_bytes(self.array()?).into()),
            6 => WeightMetadata::Float(f32::from_le_bytes(self.array()?).into()),
            7 => match self.array::<1>()? {
                [0] => WeightMetadata::Bool(false),
                [1] => WeightMetadata::Bool(true),
                [other] => return Err(Error::new(format!("{other} is not a truth value"))),
            },
            8 => WeightMetadata::Text(self.text()?),
            9 => {
                let (kind, count) = (self.u32()?, self.u64()?);
                let left = self.cursor.left();
                if count > left {
                    let message = format!("a list of {count} values, but {left} bytes are left");
                    return Err(Error::new(message));
                }
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.value(kind, depth + 1)?);
                }
                WeightMetadata::List(values)
            }
            10 => {
                let value = self.u64()?;
                i64::try_from(value).map_or(WeightMetadata::Unsigned(value), WeightMetadata::Int)
            }
            11 => int(i64::from_le_bytes(self.array()?)),
            12 => WeightMetadata::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(Error::new(format!("the metadata type {other} is unknown"))),
        })
    }

    fn tensor(&mut self) -> Result<TensorInfo> {
        let name = self.text()?;
        let rank = self.u32()?;
        if rank > MAX_AXES {
            let name = shortened(&name);
            let message = format!("tensor `{name}` has {rank} axes, at most {MAX_AXES}");
            return Err(Error::new(message));
        }
        let mut shape = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            let size = usize::try_from(self.u64()?);
            shape.push(size.map_err(|_| Error::new("an axis size is too large"))?);
        }
        // The file lists the axis whose elements are adjacent first.
        shape.reverse();
        let number = self.u32()?;
        let dtype = match number {
            0 => WeightDType::F32,
            1 => WeightDType::F16,
            24 => WeightDType::I8,
            25 => WeightDType::I16,
            26 => WeightDType::I32,
            27 => WeightDType::I64,
            28 => WeightDType::F64,
            30 => WeightDType::BF16,
            _ => {
                let kind = GgmlType::from_number(number).map(WeightDType::Ggml);
                let name = shortened(&name);
                kind.ok_or_else(|| {
                    Error::new(format!("tensor `{name}` has the type {number}, which is unknown"))
                })?
            }
        };
        Ok(TensorInfo { name, shape, dtype, offset: self.u64()? })
    }

    /// Returns the tensor behind the header.
    fn stored(&self, source: &ByteSource, start: u64, info: TensorInfo) -> Result<StoredTensor> {
        let TensorInfo { shape, dtype, offset, .. } = info;
        let bytes = dtype.byte_len(&shape);
        let place = bytes.and_then(|bytes| {
            let offset = start.checked_add(offset)?;
            (offset.checked_add(bytes)? <= source.size()).then_some((offset, bytes))
        });
        let Some((offset, bytes)) = place else {
            let size = source.size();
            return Err(Error::new(format!(
                "{dtype}{shape:?} at byte {offset} behind byte {start} is not in the file of \
                 {size} bytes, or has incomplete blocks"
            )));
        };
        let (source, order, width) = (source.clone(), self.order, dtype.swap_width());
        let range = FileRange { source, offset, bytes, order, width };
        Ok(match dtype {
            WeightDType::Ggml(kind) if self.order == ByteOrder::Big => {
                StoredTensor::new(dtype, shape, SwappedBlocks(range, kind))
            }
            _ => StoredTensor::new(dtype, shape, range),
        })
    }
}

/// Blocks of a big-endian file.
struct SwappedBlocks(FileRange, GgmlType);

impl ReadElements for SwappedBlocks {
    fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = self.0.read()?;
        for block in bytes.chunks_exact_mut(self.1.block_bytes()) {
            for &(at, width, count) in wide_fields(self.1) {
                block[at..at + width * count].chunks_exact_mut(width).for_each(<[u8]>::reverse);
            }
        }
        Ok(bytes)
    }
}

/// Returns position, width and number of the fields of a block that have more than one byte.
fn wide_fields(kind: GgmlType) -> &'static [(usize, usize, usize)] {
    use GgmlType::*;
    match kind {
        Q4_0 | Q8_0 | IQ4_NL | Q1_0 => &[(0, 2, 1)],
        Q4_1 | Q8_1 | Q4_K | Q5_K | IQ4_XS => &[(0, 2, 2)],
        // The fifth bits are read as bytes.
        Q5_0 => &[(0, 2, 1)],
        Q5_1 => &[(0, 2, 2)],
        Q2_K => &[(80, 2, 2)],
        Q3_K => &[(108, 2, 1)],
        Q6_K => &[(208, 2, 1)],
        Q8_K => &[(0, 4, 1), (260, 2, 16)],
        IQ2_XXS => &[(0, 2, 33)],
        IQ2_XS => &[(0, 2, 33)],
        IQ2_S | IQ3_XXS | IQ3_S => &[(0, 2, 1)],
        IQ1_S => &[(0, 2, 1), (34, 2, 8)],
        IQ1_M => &[],
        TQ1_0 => &[(52, 2, 1)],
        TQ2_0 => &[(64, 2, 1)],
        MXFP4 | NVFP4 => &[],
    }
}
