/** Whose word counts about where a request comes from. */
import type { IncomingMessage } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { addressReader } from './caller-address.ts';
import { startTestServer } from './test-server.ts';

/** As much of a request as is read. */
function from(remoteAddress: string | undefined, forwarded?: string, others: Record<string, string> = {}) {
  const headers = { ...(forwarded !== undefined && { 'x-forwarded-for': forwarded }), ...others };
  return { socket: { remoteAddress }, headers } as unknown as IncomingMessage;
}

const proxy = '10.0.0.1';
const trusting = ['10.0.0.0/8', '2001:db8::1'];

test.each([
  ['the connection', '203.0.113.9', undefined, '203.0.113.9'],
  ['a connection of IPv4 on a socket for both', '::ffff:203.0.113.9', undefined, '203.0.113.9'],
  ['a caller who is no proxy, whatever they say', '203.0.113.9', '198.51.100.7', '203.0.113.9'],
  ['who a proxy names', proxy, '198.51.100.7', '198.51.100.7'],
  ['who the last proxy names, not who the caller does', proxy, '1.1.1.1, 198.51.100.7', '198.51.100.7'],
  ['who the first of several proxies names', proxy, '1.1.1.1, 198.51.100.7, 10.2.2.2', '198.51.100.7'],
  ['a proxy whose word is no address', proxy, 'unknown', proxy],
  ['a proxy that lets a line through', proxy, '198.51.100.7\u001b[31m', proxy],
  ['who a proxy names with a port', proxy, '198.51.100.7:4711', '198.51.100.7'],
  ['who a proxy names with a port, in IPv6', proxy, '[2001:DB8::7]:4711', '2001:db8::7'],
  ['a proxy of IPv6', '2001:db8::1', '198.51.100.7', '198.51.100.7'],
  ['a proxy alone', proxy, undefined, proxy],
  ['a proxy with an empty header', proxy, '', proxy],
])('%s', (_, connection, forwarded, expected) => {
  expect(addressReader(trusting)(from(connection, forwarded))).toBe(expected);
});

test('nobody is trusted unless the operator says so', () => {
  for (const connection of ['127.0.0.1', '::1', proxy])
    expect(addressReader([])(from(connection, '198.51.100.7'))).toBe(connection);
});

test('no other header counts', () => {
  const others = {
    forwarded: 'for=198.51.100.7',
    'x-real-ip': '198.51.100.7',
    'x-client-ip': '198.51.100.7',
    'x-user-id': 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  };
  expect(addressReader(trusting)(from(proxy, undefined, others))).toBe(proxy);
});

test('a connection that is gone has no address', () => {
  expect(addressReader(trusting)(from(undefined, '198.51.100.7'))).toBeNull();
});

test('the log names the caller, and warns once of a proxy that nobody trusts', async () => {
  for (const [trustedProxies, named, warnings] of [
    [[], '127.0.0.1', 1],
    [['loopback'], '198.51.100.7', 0],
  ] as const) {
    const server = await startTestServer({ settings: { trustedProxies } });
    onTestFinished(server.close);
    const headers = { 'x-forwarded-for': '198.51.100.7' };
    for (const _ of [1, 2]) await server.request('GET', '/health', { headers });
    const requests = () => server.log.filter(({ msg }) => msg === 'request');
    await expect.poll(() => requests().length).toBe(2);
    expect(requests().map(({ address }) => address)).toEqual([named, named]);
    expect(server.log.filter(({ msg }) => String(msg).includes('SERVICE_TRUSTED_PROXIES'))).toHaveLength(
      warnings,
    );
  }
});
