#!/bin/sh
# sbom.sh VERSION FILE...: an SPDX 2.3 document of what the library is made of, as tag-value. The same files give the
# same bytes: the date is that of the tar's entries, and the namespace is made of the files.
set -eu
LC_ALL=C
export LC_ALL
version=$1
shift
files=$(for file; do echo "$file"; done | sort)
# shellcheck disable=SC2086 # a list of files
sha1=$(sha1sum $files) sha256=$(sha256sum $files)
cat <<END
SPDXVersion: SPDX-2.3
DataLicense: CC0-1.0
SPDXID: SPDXRef-DOCUMENT
DocumentName: glint-$version
DocumentNamespace: urn:glint:$version:$(echo "$sha256" | sha256sum | cut -c1-32)
Creator: Tool: glint-sbom
Created: 1970-01-01T00:00:00Z

PackageName: glint
SPDXID: SPDXRef-Package
PackageVersion: $version
PackageDownloadLocation: NOASSERTION
FilesAnalyzed: true
PackageVerificationCode: $(echo "$sha1" | cut -c1-40 | sort | tr -d '\n' | sha1sum | cut -c1-40)
PackageLicenseConcluded: NOASSERTION
PackageLicenseDeclared: NOASSERTION
PackageCopyrightText: NOASSERTION
PackageComment: <text>No source of another project is in it. At run time it calls memcpy, memmove, memset and memcmp of the C library, and for a GPU dlopen, dlsym,
dlclose and the driver's library libcuda.so.1.</text>
Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-Package
END
{ echo "$sha1"; echo "$sha256"; } | awk '
    !($2 in first) { first[$2] = $1; next }
    { printf "\nFileName: ./%s\nSPDXID: SPDXRef-File-%d\nFileChecksum: SHA1: %s\nFileChecksum: SHA256: %s\nLicenseConcluded: NOASSERTION\n" \
             "LicenseInfoInFile: NOASSERTION\nFileCopyrightText: NOASSERTION\nRelationship: SPDXRef-Package CONTAINS SPDXRef-File-%d\n",
             $2, ++count, first[$2], $1, count }'
