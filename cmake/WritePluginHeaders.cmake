# Writes core/plugin_headers.h (cmake -P), with a hash over the headers that components include: a plug-in that was built
# with others is refused.
# In: SOURCE_DIR, FOLDERS (comma-separated), TEMPLATE, OUTPUT, VERSION.
string(REPLACE "," ";" FOLDERS "${FOLDERS}")
set(TEXT "")
foreach(FOLDER IN LISTS FOLDERS)
  file(GLOB_RECURSE HEADERS RELATIVE "${SOURCE_DIR}" "${SOURCE_DIR}/${FOLDER}/*.h")
  list(FILTER HEADERS EXCLUDE REGEX "/cuda/|-inl\\.h$")
  list(SORT HEADERS)
  foreach(HEADER IN LISTS HEADERS)
    file(SHA256 "${SOURCE_DIR}/${HEADER}" DIGEST)
    string(APPEND TEXT "${HEADER} ${DIGEST}\n")
  endforeach()
endforeach()
string(SHA256 HASH "${TEXT}")
string(SUBSTRING "${HASH}" 0 16 HASH)
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
