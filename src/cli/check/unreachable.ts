/**
 * Explains why a model server does not respond and what to change. The error code shows the reason, or a probe finds out
 * whether the port speaks TLS.
 */
import { type Failure, type ProbeOptions, probe, speaksTls } from './probe.ts'

export interface Diagnosis {
  readonly says: string
  readonly fix: string
}

export interface SettingNames {
  readonly baseUrl: string
  readonly caFile: string
  readonly concurrency: string
}

export async function diagnose(
  url: URL,
  failure: Failure,
  options: ProbeOptions,
  names: SettingNames,
): Promise<Diagnosis> {
  const { code, fault } = failure
  // An HTTP server that gets a TLS handshake waits for more bytes until the timeout. With https, a timeout can therefore mean a
  // wrong scheme.
  const isFarAway = code === 'UND_ERR_CONNECT_TIMEOUT' && url.protocol === 'http:'
  if (fault !== 'dns' && code !== 'ECONNREFUSED' && !isFarAway) {
    const wrongScheme = await schemeDiagnosis(url, options, names)
    if (wrongScheme !== null) return wrongScheme
  }
  return ofFailure(url, failure, names)
}

/** Returns null unless the port speaks HTTP although the URL has https, or TLS although the URL has http. */
export async function schemeDiagnosis(
  url: URL,
  options: ProbeOptions,
  { baseUrl }: SettingNames,
): Promise<Diagnosis | null> {
  if (url.protocol === 'http:') {
    if (!(await speaksTls(url, options.timeoutMs))) return null
    return {
      says: `cannot be reached: ${url.host} speaks TLS, but the URL begins with http:`,
      fix: `use https: in ${baseUrl}`,
    }
  }
  const plain = new URL(url)
  plain.protocol = 'http:'
  plain.port = url.port || '443'
  const [hasTls, answered] = await Promise.all([
    // Even an untrusted certificate shows that the port speaks TLS.
    speaksTls(url, options.timeoutMs),
    probe(plain, { ...options, anonymous: true }),
  ])
  if (hasTls || answered.kind === 'failed') return null
  return {
    says: `cannot be reached: ${url.host} does not speak TLS, but the URL begins with https:`,
    fix: `use http: in ${baseUrl}`,
  }
}

function ofFailure(
  url: URL,
  { fault, code }: Failure,
  { baseUrl, caFile }: Pick<SettingNames, 'baseUrl' | 'caFile'>,
): Diagnosis {
  switch (fault) {
    case 'dns':
      return {
        says: `cannot be reached: the name ${url.hostname} cannot be resolved (${code})`,
        fix: `correct the host in ${baseUrl}, or the name resolution of this machine`,
      }
    case 'timeout':
      return {
        says: `accepts connections, but does not respond (${code})`,
        fix: `look at the log of the model server, which may still be loading its model; if another program uses this port, correct ${baseUrl}`,
      }
    case 'protocol':
      return {
        says: `cannot be reached: the service on ${url.host} does not speak HTTP (${code})`,
        fix: `correct the port in ${baseUrl}`,
      }
    case 'tls':
      return tlsDiagnosis(url, code, { baseUrl, caFile })
    case 'connection':
      return connectionDiagnosis(url, code, baseUrl)
  }
}

function tlsDiagnosis(
  url: URL,
  code: string,
  { baseUrl, caFile }: Pick<SettingNames, 'baseUrl' | 'caFile'>,
): Diagnosis {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return {
      says: `cannot be reached: its certificate is not for ${url.hostname} (${code})`,
      fix: `use the name in the certificate in ${baseUrl}, or give the server a certificate for ${url.hostname}`,
    }
  }
  if (/EXPIRED|NOT_YET_VALID/.test(code)) {
    return {
      says: `cannot be reached: its certificate is not valid at this time (${code})`,
      fix: 'renew the certificate of the server, or correct the clock of this machine',
    }
  }
  if (/^ERR_SSL|^EPROTO/.test(code)) {
    return {
      says: `cannot be reached: the TLS handshake fails (${code})`,
      fix: `correct the port in ${baseUrl}, or the TLS settings of the server`,
    }
  }
  return {
    says: `cannot be reached: its certificate is not trusted (${code})`,
    fix: `set ${caFile} to a file with the certificate of the authority that signed it, in PEM`,
  }
}

function connectionDiagnosis(url: URL, code: string, baseUrl: string): Diagnosis {
  if (code === 'ECONNREFUSED') {
    return {
      says: `cannot be reached: nothing listens on ${url.host} (${code})`,
      fix: `start the model server, or correct ${baseUrl}; in a container, 127.0.0.1 and localhost are the container itself`,
    }
  }
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return {
      says: `cannot be reached: no connection to ${url.host} (${code})`,
      fix: `correct ${baseUrl}, or allow the connection in the firewall`,
    }
  }
  return {
    says: `cannot be reached: ${url.host} closes the connection without a response (${code})`,
    fix: `look at the log of the model server; if another program uses this port, correct ${baseUrl}`,
  }
}
