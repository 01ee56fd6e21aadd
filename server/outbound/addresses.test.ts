/** Every kind of address, in every way to write it. */
import { describe, expect, test } from 'vitest';
import { placeOf } from './addresses.ts';
import { allowListFault, parseAllowList } from './allow-list.ts';

test.each([
  ['8.8.8.8', 'public'],
  ['2606:4700::1111', 'public'],
  ['10.0.0.1', 'private'],
  ['172.16.0.1', 'private'],
  ['172.31.255.255', 'private'],
  ['172.32.0.1', 'public'],
  ['192.168.1.1', 'private'],
  ['100.64.0.1', 'private'],
  ['198.18.0.1', 'private'],
  ['fc00::1', 'private'],
  ['fd12:3456::1', 'private'],
  ['64:ff9b::808:808', 'private'],
  ['127.0.0.1', 'loopback'],
  ['127.255.255.254', 'loopback'],
  ['0.0.0.0', 'loopback'],
  ['::', 'loopback'],
  ['::1', 'loopback'],
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:7f00:1', 'loopback'],
  ['::ffff:10.0.0.1', 'private'],
  ['::ffff:8.8.8.8', 'public'],
  ['0.1.2.3', 'special'],
  ['169.254.1.1', 'special'],
  ['192.0.0.8', 'special'],
  ['192.0.2.1', 'special'],
  ['192.88.99.1', 'special'],
  ['198.51.100.1', 'special'],
  ['203.0.113.1', 'special'],
  ['224.0.0.1', 'special'],
  ['240.0.0.1', 'special'],
  ['255.255.255.255', 'special'],
  ['fe80::1', 'special'],
  ['fe80::1%eth0', 'special'],
  ['fec0::1', 'special'],
  ['ff02::1', 'special'],
  ['100::1', 'special'],
  ['2001:db8::1', 'special'],
  ['3fff::1', 'special'],
  ['2001::1', 'special'],
  ['2001:2::1', 'special'],
  ['2002:7f00:1::', 'special'],
  ['2002:808:808::', 'special'],
  ['64:ff9b::7f00:1', 'special'],
  ['64:ff9b::a00:1', 'special'],
  ['64:ff9b:1::a00:1', 'special'],
  ['64:ff9b:1::808:808', 'special'],
  ['64:ff9b:1:a9fe:a9:fe00:808:808', 'special'],
  ['::ffff:0:127.0.0.1', 'special'],
  ['::127.0.0.1', 'loopback'],
  ['::7f00:1', 'special'],
  ['4000::1', 'special'],
  ['169.254.169.254', 'metadata'],
  ['::ffff:169.254.169.254', 'metadata'],
  ['64:ff9b::a9fe:a9fe', 'metadata'],
  ['169.254.170.2', 'metadata'],
  ['100.100.100.200', 'metadata'],
  ['192.0.0.192', 'metadata'],
  ['fd00:ec2::254', 'metadata'],
  ['168.63.129.16', 'metadata'],
  ['::ffff:168.63.129.16', 'metadata'],
  ['64:ff9b::a83f:8110', 'metadata'],
  ['168.63.129.17', 'public'],
  ['fd20:ce::254', 'metadata'],
  ['fd20:ce::253', 'private'],
])('%s is %s', (address, place) => {
  expect(placeOf(address)).toBe(place);
});

describe('the list of allowed places', () => {
  test.each([
    ['ollama.internal', 'http://ollama.internal:11434/api', true],
    ['ollama.internal', 'https://OLLAMA.internal./', true],
    ['ollama.internal', 'http://evil.ollama.internal/', false],
    ['ollama:11434', 'http://ollama:11434/', true],
    ['ollama:11434', 'http://ollama/', false],
    ['ollama:80', 'http://ollama/', true],
    ['http://ollama:11434', 'https://ollama:11434/', false],
    ['https://ollama', 'https://ollama/', true],
    ['https://ollama', 'https://ollama:8443/', false],
    ['10.0.0.5:8080', 'http://10.0.0.5:8080/', true],
    ['10.0.0.5:8080', 'http://10.0.0.5/', false],
    ['[fd00::1]:8080', 'http://[fd00:0::1]:8080/', true],
  ])('%s names %s: %s', (entry, url, named) => {
    expect(parseAllowList([entry]).names(new URL(url))).toBe(named);
  });

  test.each([
    ['10.0.0.5', '10.0.0.5', true],
    ['10.0.0.5', '10.0.0.6', false],
    ['10.0.0.0/8', '10.200.0.1', true],
    ['10.0.0.0/8', '::ffff:10.200.0.1', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['10.0.0.0/8', 'fd00::1', false],
    ['fd00::/8', 'fd12::1', true],
    ['[::1]', '::1', true],
    ['::ffff:10.0.0.5', '10.0.0.5', true],
  ])('%s covers %s: %s', (entry, address, covered) => {
    expect(parseAllowList([entry]).covers(address)).toBe(covered);
  });

  test.each([
    '*',
    '*.example.com',
    '10.0.0.0/33',
    'http://host/path',
    'ftp://host',
    'user@host',
    'a b',
    '',
    'host:99999',
    'http://',
  ])('%j is no place, and the fault says what is', (entry) => {
    expect(allowListFault(entry)).toMatch(/is neither a host/);
    expect(() => parseAllowList([entry])).toThrow(/is neither a host/);
  });
});
