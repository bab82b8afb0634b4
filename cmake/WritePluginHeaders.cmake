# Writes core/plugin_headers.h (cmake -P), with a hash over the headers that components include: a plug-in that was built
# with others is refused.
# In: SOURCE_DIR, TEMPLATE, OUTPUT, VERSION.
include("${CMAKE_CURRENT_LIST_DIR}/DragonnPublicHeaders.cmake")
dragonn_with_included(HEADERS "${SOURCE_DIR}" ${DRAGONN_PUBLIC_HEADERS})
set(TEXT "")
foreach(HEADER IN LISTS HEADERS)
  file(SHA256 "${SOURCE_DIR}/${HEADER}" DIGEST)
  string(APPEND TEXT "${HEADER} ${DIGEST}\n")
endforeach()
string(SHA256 HASH "${TEXT}")
string(SUBSTRING "${HASH}" 0 16 HASH)
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
