# What `cmake --install` lays down. Component "library": header, libswivel and its package file; component "llama": plugin and tool.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS swivel_library EXPORT swivelTargets COMPONENT library)
install(FILES include/swivel/swivel.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/swivel COMPONENT library)
install(EXPORT swivelTargets NAMESPACE swivel:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/swivel COMPONENT library)
configure_package_config_file(cmake/swivelConfig.cmake.in ${PROJECT_BINARY_DIR}/swivelConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/swivel)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/swivelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/swivelConfig.cmake ${PROJECT_BINARY_DIR}/swivelConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/swivel COMPONENT library)

if(SWIVEL_LLAMA_ROOT)
  # Not a library to link against: it lives in a folder of its own, where `swivel plugin-path` looks.
  install(TARGETS ggml-swivel LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/swivel COMPONENT llama)
  install(TARGETS swivel RUNTIME COMPONENT llama)
endif()
