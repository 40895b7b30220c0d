# find_package(glint): the targets glint::glint and glint::pool. Found from where this file lies, so that the folder may be put anywhere.
get_filename_component(_glint_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET glint::glint)
  add_library(glint::glint STATIC IMPORTED)
  # The driver of a GPU is looked for with dlopen, which is in libdl before glibc 2.34.
  set_target_properties(glint::glint PROPERTIES
    IMPORTED_LOCATION "${_glint_prefix}/lib/libglint.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_glint_prefix}/include"
    INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")

  # The optional pool of threads.
  set(THREADS_PREFER_PTHREAD_FLAG ON)
  find_package(Threads QUIET)
  add_library(glint::pool STATIC IMPORTED)
  set_target_properties(glint::pool PROPERTIES
    IMPORTED_LOCATION "${_glint_prefix}/lib/libglint_pool.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_glint_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads")
endif()
unset(_glint_prefix)
