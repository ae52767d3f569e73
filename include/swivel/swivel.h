/* Swivel: compressed KV caches for attention. C interface of libswivel.
 *
 * One swivel_cache holds K and V of one layer: rows are encoded when they are appended and attention is computed on the packed codes.
 *
 * Conventions
 *   - Functions that can fail return a swivel_status and fill *error (which may be NULL) with one sentence. Nothing is printed, thrown
 *     or aborted. After a failure the cache is as it was.
 *   - Rows are floats, heads one after the other: [num_kv_heads][width]. Arrays need the alignment of float only.
 *   - Pointers passed in are borrowed for the call. A swivel_cache or swivel_attention is owned by whoever created it.
 *   - Threads: a cache may be read by many threads at once; append, clear and destroy need it alone.
 *   - The ABI is stable within a minor version (0.x).
 */
#ifndef SWIVEL_SWIVEL_H_
#define SWIVEL_SWIVEL_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SWIVEL_API __attribute__((visibility("default")))
#else
#define SWIVEL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum swivel_status {
  SWIVEL_OK = 0,
  SWIVEL_INVALID_ARGUMENT = 1, /* a value is wrong; the message names it and what is accepted */
  SWIVEL_UNSUPPORTED = 2,      /* well formed, but this codec or processor cannot serve it */
  SWIVEL_OUT_OF_MEMORY = 3,
  SWIVEL_INTERNAL = 4
} swivel_status;

typedef struct swivel_error {
  char message[512]; /* zero-terminated; empty when the call succeeded */
} swivel_error;

/* "0.1.0" */
SWIVEL_API const char* swivel_version(void);

/* Codecs, by index from 0. Name is NULL past the end. */
SWIVEL_API int swivel_codec_count(void);
SWIVEL_API const char* swivel_codec_name(int index);
/* Bits a value at a head width, scales counted; 0 when the codec or the width does not exist. */
SWIVEL_API double swivel_codec_bits(const char* name, int width);

typedef struct swivel_cache swivel_cache;

typedef struct swivel_cache_params {
  const char* spec;   /* the --kv grammar: "turbo4", "k=turbo4,v=turbo3", … */
  int layer;          /* which of num_layers layers this is, from 0; matters for boundary=… */
  int num_layers;
  int k_width;        /* values of one head's key: a multiple of 16 from 32 to 576 */
  int v_width;
  int num_kv_heads;
  int64_t num_cells;  /* tokens the cache can hold; memory is committed as cells are written */
} swivel_cache_params;

/* Creates an empty cache. The kernel target is the best of this processor, or what the environment variable SWIVEL_TARGET names;
 * SWIVEL_UNSUPPORTED when this processor cannot run that one. */
SWIVEL_API swivel_status swivel_cache_create(const swivel_cache_params* params, swivel_cache** cache, swivel_error* error);
/* The kernel target that the cache encodes and attends with: "portable", "avx2", "avx512" or "neon". */
SWIVEL_API const char* swivel_cache_target(const swivel_cache* cache);
/* Frees the cache and its memory; NULL is allowed. */
SWIVEL_API void swivel_cache_destroy(swivel_cache* cache);

/* Encodes `count` rows into cells [first_cell, first_cell + count), overwriting what was there.
 * k: [count][num_kv_heads][k_width], v: [count][num_kv_heads][v_width]. Rows with NaN or infinity decode to NaN. */
SWIVEL_API swivel_status swivel_cache_write(swivel_cache* cache, int64_t first_cell, int64_t count, const float* k, const float* v,
                                            swivel_error* error);
/* Decodes cells; k or v may be NULL. Cells never written are zeros. */
SWIVEL_API swivel_status swivel_cache_read(const swivel_cache* cache, int64_t first_cell, int64_t count, float* k, float* v,
                                           swivel_error* error);
/* All cells become zeros and their memory goes back to the system. */
SWIVEL_API void swivel_cache_clear(swivel_cache* cache);

typedef struct swivel_memory {
  size_t capacity_bytes; /* packed size of num_cells cells */
  size_t resident_bytes; /* physical memory in use now (whole pages) */
  double bits_per_value; /* mean over K and V, everything counted */
} swivel_memory;
SWIVEL_API swivel_memory swivel_cache_memory(const swivel_cache* cache);

typedef struct swivel_attention swivel_attention;

typedef struct swivel_attention_params {
  int num_heads;         /* query heads; a multiple of num_kv_heads */
  int num_queries;
  int64_t num_cells;     /* attention runs over cells [0, num_cells) */
  const float* q;        /* [num_queries][num_heads][k_width] */
  float* out;            /* [num_queries][num_heads][v_width] */
  const uint16_t* mask;  /* f16 [num_queries][num_cells], added to the logits, -inf hides a cell; NULL: all visible */
  const float* sinks;    /* [num_heads] sink logits, or NULL */
  float scale;           /* multiplies q.k, usually 1/sqrt(k_width) */
  float logit_softcap;   /* 0: none */
  float max_bias;        /* ALiBi, 0: none */
  int max_threads;
} swivel_attention_params;

/* Prepares softmax(scale q k^T + mask) v. The arrays of `params` must live until the last run has returned. */
SWIVEL_API swivel_status swivel_attention_create(const swivel_cache* cache, const swivel_attention_params* params,
                                                 swivel_attention** attention, swivel_error* error);
/* To be called once by each of num_threads (<= max_threads) threads of the caller; returns when no work is left for this thread. The
 * result does not depend on the number of threads. */
SWIVEL_API void swivel_attention_run(swivel_attention* attention, int thread, int num_threads);
/* Makes the same attention ready to run again (new contents of q, mask and cache are seen). */
SWIVEL_API void swivel_attention_reset(swivel_attention* attention);
SWIVEL_API void swivel_attention_destroy(swivel_attention* attention);

#ifdef __cplusplus
}
#endif

#endif /* SWIVEL_SWIVEL_H_ */
