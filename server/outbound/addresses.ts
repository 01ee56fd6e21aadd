/** What kind of place an IP address is. */
import ipaddr from 'ipaddr.js';

/**
 * `public`: anybody's. `private`: a network that only some can reach. `loopback`: this machine. `special`: no place for
 * a web server: link-local, multicast, documentation, tunnels, reserved. `metadata`: gives a cloud's credentials to
 * whoever asks.
 */
export type Place = 'public' | 'private' | 'loopback' | 'special' | 'metadata';

/**
 * Of AWS (also its containers), Azure, Google, DigitalOcean, Hetzner; of Alibaba; of Oracle; of Azure for what its machines
 * are given, secrets too, at an address that looks public; and AWS and Google again over IPv6.
 */
const metadata = new Set([
  '169.254.169.254',
  '169.254.170.2',
  '169.254.170.23',
  '100.100.100.200',
  '192.0.0.192',
  '168.63.129.16',
  'fd00:ec2:0:0:0:0:0:254',
  'fd00:ec2:0:0:0:0:0:23',
  'fd20:ce:0:0:0:0:0:254',
]);

const placesV4: Readonly<Record<string, Place>> = {
  unicast: 'public',
  private: 'private',
  carrierGradeNat: 'private',
  loopback: 'loopback',
};

/** Throws for what is no IP address. */
export function placeOf(address: string): Place {
  return placeOfParsed(ipaddr.parse(address));
}

function placeOfParsed(address: ipaddr.IPv4 | ipaddr.IPv6): Place {
  if (metadata.has(address.toNormalizedString())) return 'metadata';
  return address instanceof ipaddr.IPv4 ? placeOfV4(address) : placeOfV6(address);
}

function placeOfV4(address: ipaddr.IPv4): Place {
  // Linux takes it for this machine.
  if (address.toString() === '0.0.0.0') return 'loopback';
  // Nobody's, for measurements; proxies on a person's machine answer every name with addresses of it.
  if (address.match(ipaddr.IPv4.parseCIDR('198.18.0.0/15'))) return 'private';
  return placesV4[address.range()] ?? 'special';
}

function placeOfV6(address: ipaddr.IPv6): Place {
  const range = address.range();
  if (range === 'ipv4Mapped') return placeOfParsed(address.toIPv4Address());
  if (range === 'rfc6052') return placeOfTranslated(address);
  if (range === 'loopback' || range === 'unspecified') return 'loopback';
  if (range === 'uniqueLocal') return 'private';
  return range === 'unicast' && address.match(ipaddr.IPv6.parseCIDR('2000::/3')) ? 'public' : 'special';
}

/**
 * A network without IPv4 reaches its servers by such addresses. What they lead to is checked by the translator alone. Where
 * in those of one's own network (RFC 8215) the inner address stands, only that network knows.
 */
function placeOfTranslated(address: ipaddr.IPv6): Place {
  if (address.match(ipaddr.IPv6.parseCIDR('64:ff9b:1::/48'))) return 'special';
  const inner = ipaddr.fromByteArray(address.toByteArray().slice(12));
  const place = placeOfParsed(inner);
  if (place === 'public') return 'private';
  return place === 'metadata' ? 'metadata' : 'special';
}
