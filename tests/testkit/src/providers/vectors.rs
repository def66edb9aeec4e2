//! Embeddings that depend on nothing but the text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Dimensions if nothing is said.
pub(super) const DIMENSIONS: usize = 16;

/// The embedding of a text: unit length, the same on every call.
pub fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    // FNV-1a, then one step of xorshift for each dimension.
    let mut state = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let raw: Vec<f32> = (0..dimensions)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let [low, high, ..] = state.to_le_bytes();
            f32::from(i16::from_le_bytes([low, high])) / 32768.0
        })
        .collect();
    let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    raw.into_iter().map(|x| x / length).collect()
}

/// The same as base64 of little-endian floats.
pub(super) fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_unit_length_and_tell_texts_apart() {
        let (a, b) = (vector("a", DIMENSIONS), vector("b", DIMENSIONS));
        assert_eq!(a, vector("a", DIMENSIONS));
        assert_ne!(a, b);
        assert!((a.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
        assert_eq!(base64(&[1.0]), "AACAPw==");
    }
}
