//! Sentences: tokens equal Hugging Face's, and the batch size changes nothing but the number of
//! programs.

use super::recorded::folder;
use super::transformers::{difference, notes};
use oxidax::prelude::*;
use oxidax_models::bert::{BertTokenizer, SentenceEncoder, SentenceEncoderOptions};

fn tokenizer(max_tokens: Option<usize>) -> BertTokenizer {
    BertTokenizer::load(folder(), 40, max_tokens).unwrap()
}

fn tokens(tokenizer: &BertTokenizer, sentence: &str) -> Vec<i32> {
    tokenizer.encode(sentence).unwrap().tokens.to_vec().unwrap()
}

fn recorded() -> Vec<String> {
    let sentences = notes(&folder())["sentences"].as_array().unwrap().clone();
    sentences.iter().map(|some| some["text"].as_str().unwrap().to_owned()).collect()
}

/// The tokenizer's file truncates at 32 tokens and pads to the same length.
#[test]
fn tokens_match_hugging_face() {
    let tokenizer = tokenizer(None);
    for sentence in notes(&folder())["sentences"].as_array().unwrap() {
        let text = sentence["text"].as_str().unwrap();
        let ids: Vec<i32> = serde_json::from_value(sentence["ids"].clone()).unwrap();
        assert_eq!(tokens(&tokenizer, text), ids, "{text:?}");
    }
}

#[test]
fn sentences_are_truncated_at_the_length_of_the_folder_or_user() {
    let long = "to be or not to be that is the question ".repeat(20);
    let length = |tokenizer: &BertTokenizer| tokens(tokenizer, &long).len();
    assert_eq!((length(&tokenizer(None)), tokenizer(None).padded_lengths()), (32, vec![16, 32]));
    assert_eq!(
        (length(&tokenizer(Some(40))), tokenizer(Some(40)).padded_lengths()),
        (40, vec![16, 32, 40])
    );
    assert_eq!((length(&tokenizer(Some(3))), tokenizer(Some(3)).padded_lengths()), (3, vec![3]));
    let (first, last) = (tokens(&tokenizer(None), "x")[0], tokens(&tokenizer(Some(3)), &long)[2]);
    assert_eq!((first, last), (2, 3), "[CLS] and [SEP]");

    // The training configuration takes precedence over the tokenizer's file, and the number of
    // positions over both.
    let copied = tempfile::tempdir().unwrap();
    std::fs::copy(folder().join("tokenizer.json"), copied.path().join("tokenizer.json")).unwrap();
    for (stored_length, positions, expected) in [(20, 40, 20), (64, 40, 40)] {
        let stored_length =
            format!("{{\"max_seq_length\": {stored_length}, \"do_lower_case\": false}}");
        std::fs::write(copied.path().join("sentence_bert_config.json"), stored_length).unwrap();
        assert_eq!(length(&BertTokenizer::load(copied.path(), positions, None).unwrap()), expected);
    }
}

#[test]
fn impossible_lengths_and_folders_without_a_tokenizer_are_refused() {
    for longest in [0, 2, 41] {
        let error = BertTokenizer::load(folder(), 40, Some(longest)).err().unwrap().to_string();
        let expected = format!(
            "error[data]: tokenizer: sentences of {longest} tokens; 3 to 40 are possible with this model"
        );
        assert_eq!(error, expected);
    }
    let empty = tempfile::tempdir().unwrap();
    let error = BertTokenizer::load(empty.path(), 40, None).err().unwrap().to_string();
    assert!(error.ends_with("has no tokenizer.json"), "{error}");
    std::fs::write(empty.path().join("tokenizer.json"), "{").unwrap();
    let error = BertTokenizer::load(empty.path(), 40, None).err().unwrap().to_string();
    assert!(error.contains("tokenizer.json: "), "{error}");
}

mod on_cpu {
    use super::*;

    /// An incomplete batch, the other sentences of a batch and the padding do not change a vector.
    #[test]
    fn batches_change_nothing_but_the_number_of_programs() {
        let encoder = SentenceEncoder::load(folder()).unwrap();
        let sentences = recorded();
        let alone = encoder.embed(&sentences, 1).unwrap();
        assert_eq!(alone.compiled_programs, 2, "16 and 32 tokens");
        let together = encoder.embed(&sentences, 5).unwrap();
        assert_eq!(together.compiled_programs, 2);
        for time in [together.compile_time, together.compute_time] {
            assert!(!time.is_zero());
        }
        assert_eq!(
            encoder.embed(&sentences[..3], 5).unwrap().compiled_programs,
            0,
            "known already"
        );
        assert_eq!(together.vectors.shape().dims(), [sentences.len(), 32]);
        let apart = difference(&together.vectors, &alone.vectors);
        assert!(apart < 1e-5, "{apart:.1e}");
        let lengths = (&together.vectors * &together.vectors).sum_axes(axes(-1));
        for length in lengths.to_vec::<f32>().unwrap() {
            assert!((length - 1.0).abs() < 1e-5, "{length}");
        }
    }

    #[test]
    fn empty_input_gives_no_vectors_and_empty_batches_are_refused() {
        let encoder = SentenceEncoder::load(folder()).unwrap();
        assert_eq!(encoder.embed(&[""; 0], 4).unwrap().vectors.shape().dims(), [0, 32]);
        let refused = encoder.embed(&["x"], 0).unwrap_err().to_string();
        assert!(refused.starts_with("error[value]: embed: batches of 0 sentences"), "{refused}");
    }

    /// Rounded to 8 bits, the vectors keep their directions.
    #[test]
    fn bf16_changes_the_direction_of_vectors_little() {
        let [full, narrow] =
            [nn::DTypePolicy::full(), nn::DTypePolicy::mixed_bf16()].map(|policy| {
                let options = SentenceEncoderOptions { policy, ..Default::default() };
                let encoder = SentenceEncoder::load_with(folder(), options).unwrap();
                encoder.embed(&recorded(), 8).unwrap().vectors
            });
        let cosines = (full * narrow).sum_axes(axes(-1)).to_vec::<f32>().unwrap();
        for (sentence, cosine) in recorded().iter().zip(cosines) {
            assert!((0.99..0.999_999).contains(&cosine), "{sentence:?}: {cosine}");
        }
    }
}
