# The llama.cpp that the tool links and whose private headers the plugin is compiled against (nothing of it is linked into the plugin).
find_library(SWIVEL_LLAMA_LIBRARY llama PATHS ${SWIVEL_LLAMA_ROOT}/lib NO_DEFAULT_PATH REQUIRED)
find_library(SWIVEL_GGML_LIBRARY ggml PATHS ${SWIVEL_LLAMA_ROOT}/lib NO_DEFAULT_PATH REQUIRED)
find_library(SWIVEL_GGML_BASE_LIBRARY ggml-base PATHS ${SWIVEL_LLAMA_ROOT}/lib NO_DEFAULT_PATH REQUIRED)
set(SWIVEL_GGML_PRIVATE_INCLUDES ${SWIVEL_LLAMA_ROOT}/include ${SWIVEL_LLAMA_ROOT}/include-private)

add_library(swivel_llama INTERFACE)
target_include_directories(swivel_llama SYSTEM INTERFACE ${SWIVEL_LLAMA_ROOT}/include)
target_link_libraries(swivel_llama INTERFACE ${SWIVEL_LLAMA_LIBRARY} ${SWIVEL_GGML_LIBRARY} ${SWIVEL_GGML_BASE_LIBRARY})
