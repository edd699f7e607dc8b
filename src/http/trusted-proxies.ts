/** Which peers are proxies whose X-Forwarded-For counts (`trust_proxy`). */
import { BlockList, isIP, isIPv6 } from 'node:net'
import { unmapped } from './network-of.ts'

/** Whether a text is an address in one of these networks, such as `10.0.0.0/8` or `::1`. */
export function addressesIn(networks: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return (address) => {
    const plain = unmapped(address)
    const version = isIP(plain)
    return version !== 0 && list.check(plain, version === 6 ? 'ipv6' : 'ipv4')
  }
}

export function networksOf(trustProxy: boolean | string): string[] {
  return typeof trustProxy === 'string' ? trustProxy.split(',').map((entry) => entry.trim()) : []
}

/** For Fastify. On a Unix socket a peer has no address, and is a program of this machine, so it is trusted if any proxy is. */
export function trustedProxies(
  trustProxy: boolean | string,
): boolean | ((address: string | undefined) => boolean) {
  if (typeof trustProxy === 'boolean') return trustProxy
  const isProxy = addressesIn(networksOf(trustProxy))
  return (address) => address === undefined || isProxy(address)
}
