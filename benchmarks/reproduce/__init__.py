# SPDX-License-Identifier: Apache-2.0
"""What the tables and figures of the original study of data-centric cache measurement become here:
`make reproduce` writes docs/reproduction/, one file of this folder a page."""
