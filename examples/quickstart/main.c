/* Writes random keys and values into a compressed cache and attends over them with one thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <swivel/swivel.h>

enum { kWidth = 128, kKvHeads = 2, kHeads = 8, kCells = 1000 };

static float Uniform(void) { return (float)rand() / (float)RAND_MAX - 0.5f; }

int main(void) {
  swivel_error error;
  swivel_cache_params params = {"k=turbo4,v=turbo3", 0, 1, kWidth, kWidth, kKvHeads, kCells};
  swivel_cache* cache = NULL;
  if (swivel_cache_create(&params, &cache, &error) != SWIVEL_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }

  float k[kKvHeads * kWidth], v[kKvHeads * kWidth];
  for (int cell = 0; cell < kCells; ++cell) {
    for (int i = 0; i < kKvHeads * kWidth; ++i) {
      k[i] = Uniform();
      v[i] = Uniform();
    }
    if (swivel_cache_write(cache, cell, 1, k, v, &error) != SWIVEL_OK) return 1;
  }

  float q[kHeads * kWidth], out[kHeads * kWidth];
  for (int i = 0; i < kHeads * kWidth; ++i) q[i] = Uniform();
  swivel_attention_params attention_params = {0};
  attention_params.num_heads = kHeads;
  attention_params.num_queries = 1;
  attention_params.num_cells = kCells;
  attention_params.q = q;
  attention_params.out = out;
  attention_params.scale = 1.0f / sqrtf((float)kWidth);
  attention_params.max_threads = 1;
  swivel_attention* attention = NULL;
  if (swivel_attention_create(cache, &attention_params, &attention, &error) != SWIVEL_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  swivel_attention_run(attention, 0, 1);

  const swivel_memory memory = swivel_cache_memory(cache);
  printf("swivel %s: %d cells, %.3f bits per value, %zu bytes packed where f16 takes %d\n", swivel_version(), kCells, memory.bits_per_value,
         memory.capacity_bytes, kCells * kKvHeads * kWidth * 2 * 2);
  printf("first output values: %+.4f %+.4f %+.4f\n", out[0], out[1], out[2]);
  swivel_attention_destroy(attention);
  swivel_cache_destroy(cache);
  return 0;
}
