/** Derives from the code of a failed connection what failed: the name, TLS, or the connection itself. */
import type { ConnectionFault } from './model-server.ts'

const DNS = /^(?:ENOTFOUND|EAI_|ENODATA|ESERVFAIL|EREFUSED|ETIMEOUT|EBADNAME)/
/** OpenSSL's certificate error codes have no common prefix. */
const TLS =
  /^(?:ERR_TLS|ERR_SSL|EPROTO$|CERT_|CRL_|UNABLE_TO_|ERROR_IN_CERT|ERROR_IN_CRL|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED_CERT|HOSTNAME_MISMATCH|INVALID_(?:CA|PURPOSE)|PATH_LENGTH_EXCEEDED)/

/** @param code of the error of a socket, a resolver or OpenSSL */
export function connectionFault(code: string): ConnectionFault {
  if (DNS.test(code)) return 'dns'
  return TLS.test(code) ? 'tls' : 'connection'
}
