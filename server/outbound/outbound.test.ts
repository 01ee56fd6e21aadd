/** The guard of outgoing requests, against servers that mean harm; real sockets on this machine. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { findExecutable } from '../runtime/processes/executable.ts';
import { createOutbound, OutboundError, outboundSentence, textOf, type UrlGiver } from './outbound.ts';
import { believedCertificate, serveAnswers, testOutbound } from './test-server.ts';

const openssl = findExecutable('openssl');

const hello = (_request: unknown, response: { end(text: string): unknown }) => void response.end('hello');

/** The code of the guard's refusal. */
async function refusalOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error === null) return 'none';
  return error instanceof OutboundError ? error.code : String(error);
}

describe('where many share a server', () => {
  test.each([
    'http://127.0.0.1/',
    'http://127.1/',
    'http://2130706433/',
    'http://0x7f000001/',
    'http://0x7f.1/',
    'http://0177.0.0.1/',
    'http://017700000001/',
    'http://127.0.0.1./',
    'http://①②⑦.⓪.⓪.①/',
    'http://0/',
    'http://0.0.0.0/',
    'http://localhost/',
    'http://LOCALHOST./',
    'http://api.localhost/',
    'http://[::1]/',
    'http://[::]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:7f00:1]/',
    'http://[0:0:0:0:0:ffff:a00:1]/',
    'http://[fc00::1]/',
    'http://[fe80::1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://[64:ff9b::808:808]/',
    'http://[2002:7f00:1::]/',
    'http://[2001:db8::1]/',
    'http://10.0.0.1/',
    'http://172.16.0.1/',
    'http://192.168.0.1/',
    'http://100.64.0.1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://0xa9fea9fe/',
    'http://224.0.0.1/',
    'http://255.255.255.255/',
    'http://192.0.2.1/',
    'http://198.18.0.1/',
    'http://240.0.0.1/',
  ])('%s is refused before anything is connected to or looked up', async (url) => {
    const resolver = () => Promise.reject(new Error('looked up'));
    const outbound = testOutbound({ resolver });
    for (const giver of ['account', 'stranger'] as const)
      expect(await refusalOf(outbound.fetchFor(giver)(url))).toBe('address_refused');
  });

  test.each([
    '10.0.0.1',
    '127.0.0.1',
    '::1',
    'fd00::1',
    '::ffff:192.168.0.1',
    '169.254.169.254',
    '64:ff9b::a00:1',
  ])('a name that leads to %s is refused, also where it leads to a public place besides', async (address) => {
    const family = address.includes(':') ? 6 : 4;
    const resolver = async () => [
      { address: '93.184.216.34', family: 4 },
      { address, family },
    ];
    const fetching = testOutbound({ resolver }).fetchFor('stranger')('http://inside.example/');
    await expect(fetching).rejects.toMatchObject({
      code: 'address_refused',
      message: expect.not.stringContaining(address),
    });
  });

  test('a name inside that does not exist and one that does are refused in the same words', async () => {
    const resolver = async (name: string) => {
      if (name === 'known.internal') return [{ address: '10.0.0.7', family: 4 }];
      throw Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' });
    };
    const fetch = testOutbound({ resolver }).fetchFor('account');
    const said = (name: string) => fetch(`http://${name}/`).catch(outboundSentence);
    expect(await said('known.internal')).toBe(await said('unknown.internal'));
  });

  test.each([
    (port: number) => `127.0.0.1:${port}`,
    (port: number) => `http://127.0.0.1:${port}`,
    () => '127.0.0.1',
    () => '127.0.0.0/8',
  ])('what the operator lists is reached: form %#', async (entry) => {
    const server = await serveAnswers(hello);
    const fetch = testOutbound({ allow: [entry(server.port)] }).fetchFor('stranger');
    expect(await (await fetch(server.url)).text()).toBe('hello');
    expect(await refusalOf(fetch('http://10.0.0.1/'))).toBe('address_refused');
  });

  test('no list opens the way to the credentials of a cloud', async () => {
    const allow = [
      ...['169.254.0.0/16', '169.254.169.254', '169.254.169.254:80', 'metadata.example'],
      ...['168.63.129.16', '168.63.129.16:32526', 'fd20:ce::254'],
    ];
    const resolver = async () => [{ address: '169.254.169.254', family: 4 }];
    for (const shared of [true, false])
      for (const giver of ['operator', 'account', 'stranger'] as const) {
        const fetch = testOutbound({ allow, resolver, shared: () => shared }).fetchFor(giver);
        for (const url of [
          'http://169.254.169.254/',
          'http://metadata.example/',
          'http://[::ffff:a9fe:a9fe]/',
          'http://168.63.129.16:32526/vmSettings',
          'http://[fd20:ce::254]/computeMetadata/v1/',
        ])
          expect(await refusalOf(fetch(url))).toBe('address_refused');
      }
  });

  test('a connection that an operator had opened serves no stranger', async () => {
    const server = await serveAnswers(hello);
    const outbound = testOutbound();
    expect(await (await outbound.fetchFor('operator')(server.url)).text()).toBe('hello');
    expect(await refusalOf(outbound.fetchFor('account')(server.url))).toBe('address_refused');
    expect(server.requests).toHaveLength(1);
  });

  test('begins with the second account: what was connected to before is refused from then on', async () => {
    const server = await serveAnswers(hello);
    let shared = false;
    const fetch = testOutbound({ shared: () => shared }).fetchFor('account');
    expect(await (await fetch(server.url)).text()).toBe('hello');
    shared = true;
    expect(await refusalOf(fetch(server.url))).toBe('address_refused');
  });
});

describe('on one person’s machine', () => {
  test.each<[UrlGiver, string, string, string]>([
    ['account', 'inside.example', '127.0.0.1', 'none'],
    ['stranger', 'localhost', '127.0.0.1', 'none'],
    ['stranger', 'app.localhost', '127.0.0.1', 'none'],
    ['stranger', 'inside.example', '127.0.0.1', 'address_refused'],
    ['stranger', 'inside.example', '169.254.1.1', 'address_refused'],
    ['account', 'inside.example', '169.254.169.254', 'address_refused'],
  ])('of a %s, %s that leads to %s: %s', async (giver, name, address, refusal) => {
    const server = await serveAnswers(hello);
    const resolver = async () => [{ address, family: 4 }];
    const fetch = testOutbound({ shared: () => false, resolver }).fetchFor(giver);
    expect(await refusalOf(fetch(`http://${name}:${server.port}/`))).toBe(refusal);
  });

  test('IPv6 loopback is reached by its address', async () => {
    const server = await serveAnswers(hello, '::1');
    const fetch = testOutbound({ shared: () => false }).fetchFor('stranger');
    expect(await (await fetch(server.url)).text()).toBe('hello');
  });
});

describe('a name whose servers never answer', () => {
  /** Names that begin with `dead` are looked up for ever; a thread that does so is lost to the others, of which it has two. */
  const twoThreads = () => {
    const asked: string[] = [];
    let threads = 2;
    const resolver = async (name: string) => {
      asked.push(name);
      if (threads === 0) await new Promise(() => undefined);
      threads -= 1;
      if (name.startsWith('dead')) await new Promise(() => undefined);
      // Long enough for all who ask at once.
      await sleep(50);
      threads += 1;
      return [{ address: '127.0.0.1', family: 4 }];
    };
    const directResolver = async (name: string) => {
      if (name.startsWith('dead')) await new Promise(() => undefined);
      return [{ address: '127.0.0.1', family: 4 }];
    };
    return { asked, resolvers: { resolver, directResolver } };
  };

  test('is given up, and keeps no other from being looked up', async () => {
    const server = await serveAnswers(hello);
    const { resolvers } = twoThreads();
    const outbound = testOutbound({ ...resolvers, allow: ['127.0.0.0/8'] });
    const dead = ['dead', 'dead-too', 'dead-as-well', 'dead'].map((name) =>
      outbound.fetchFor('account')(`http://${name}.example/`).catch(outboundSentence),
    );
    await expectHello(outbound.fetchFor('operator'), `http://operator.example:${server.port}/`);
    await expectHello(outbound.fetchFor('stranger'), `http://stranger.example:${server.port}/`);
    expect(new Set(await Promise.all(dead))).toEqual(
      new Set(['The name of the server was not looked up within 5 seconds.']),
    );
    await expectHello(outbound.fetchFor('operator'), `http://later.example:${server.port}/`);
  });

  test('is asked for once, as every other is by all who want it at the time', async () => {
    const server = await serveAnswers(hello);
    const { asked, resolvers } = twoThreads();
    const outbound = testOutbound({ ...resolvers, allow: ['127.0.0.0/8'] });
    const fetches = ['account', 'stranger', 'account'] as const;
    await Promise.all(
      fetches.map((giver) => expectHello(outbound.fetchFor(giver), `http://one.example:${server.port}/`)),
    );
    expect(asked).toEqual(['one.example']);
  });

  async function expectHello(fetch: typeof globalThis.fetch, url: string): Promise<void> {
    expect(await (await fetch(url)).text()).toBe('hello');
  }
});

test('a name is looked up once and its checked address connected to: a second answer would lead elsewhere', async () => {
  const public_ = await serveAnswers(hello, '127.0.0.2');
  const secret = await serveAnswers((_request, response) => void response.end('secret'), '127.0.0.1');
  const answers = ['127.0.0.2', '127.0.0.1'];
  const asked: string[] = [];
  const resolver = async (name: string) => {
    asked.push(name);
    return [{ address: answers.shift() ?? '127.0.0.1', family: 4 }];
  };
  const fetch = testOutbound({ allow: ['127.0.0.2'], resolver }).fetchFor('stranger');
  const response = await fetch(`http://rebinding.example:${public_.port}/`);
  expect(await response.text()).toBe('hello');
  expect(asked).toEqual(['rebinding.example']);
  expect(public_.requests[0]?.headers.host).toBe(`rebinding.example:${public_.port}`);
  expect(await refusalOf(fetch(`http://rebinding.example:${secret.port}/`))).toBe('address_refused');
  expect(secret.requests).toEqual([]);
});

test.each([
  'file:///etc/passwd',
  'gopher://127.0.0.1:70/',
  'data:text/plain,hello',
  'ftp://example.com/',
  'blob:nodedata:1',
  'unix:/var/run/docker.sock',
  'http+unix://%2Fvar%2Frun%2Fdocker.sock/info',
  'javascript:alert(1)',
  'https://ada:secret@example.com/',
  'http://ada@127.0.0.1/',
  'http:///',
  'no URL',
])('%s is refused, whoever gave it', async (url) => {
  for (const giver of ['operator', 'account', 'stranger'] as const)
    expect(await refusalOf(testOutbound({ shared: () => false }).fetchFor(giver)(url))).toBe('url_refused');
});

describe('a redirect', () => {
  /** Answers `/3` by way of `/2`, `/1` and `/0`. */
  const countdown = () =>
    serveAnswers(({ url = '' }, response) => {
      const left = Number(url.slice(1));
      if (left === 0) response.end('arrived');
      else response.writeHead(302, { location: `/${left - 1}` }).end('a body that nobody reads');
    });

  test('is followed five times, and its answer says where it came from', async () => {
    const server = await countdown();
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger');
    const response = await fetch(`${server.url}/5`);
    expect(await response.text()).toBe('arrived');
    expect(response.url).toBe(`${server.url}/0`);
    expect(await refusalOf(fetch(`${server.url}/6`))).toBe('redirect_refused');
    const circle = await serveAnswers(
      (_request, answer) => void answer.writeHead(302, { location: '/' }).end(),
    );
    expect(await refusalOf(fetch(circle.url))).toBe('redirect_refused');
    expect(circle.requests).toHaveLength(6);
  });

  test.each([
    ['http://10.0.0.1/', 'address_refused'],
    ['http://0x7f000001/', 'address_refused'],
    ['http://169.254.169.254/latest/', 'address_refused'],
    ['//localhost/', 'address_refused'],
    ['file:///etc/passwd', 'url_refused'],
    ['data:text/plain,secret', 'url_refused'],
    ['https://ada:secret@example.com/', 'url_refused'],
    ['http://[', 'redirect_refused'],
  ])('to %s is checked anew: %s', async (location, refusal) => {
    const server = await serveAnswers(
      (_request, response) => void response.writeHead(302, { location }).end(),
    );
    for (const [giver, shared] of [
      ['operator', true],
      ['stranger', false],
      ['stranger', true],
    ] as const) {
      const outbound = testOutbound({ allow: [`127.0.0.1:${server.port}`], shared: () => shared });
      expect(await refusalOf(outbound.fetchFor(giver)(server.url))).toBe(refusal);
    }
  });

  test('to another server on this machine is refused, even where the first was allowed', async () => {
    const secret = await serveAnswers(hello);
    const server = await serveAnswers(
      (_request, response) => void response.writeHead(307, { location: secret.url }).end(),
    );
    for (const giver of ['operator', 'account', 'stranger'] as const)
      expect(await refusalOf(testOutbound({ shared: () => false }).fetchFor(giver)(server.url))).toBe(
        'address_refused',
      );
    expect(secret.requests).toEqual([]);
  });

  test('takes no credential to another origin, by whatever header it goes', async () => {
    const other = await serveAnswers(hello, '127.0.0.2');
    const server = await serveAnswers(
      ({ url }, response) =>
        void response
          .writeHead(302, { location: url === '/' ? '/again' : other.url, 'set-cookie': 'id=1' })
          .end(),
    );
    const headers = {
      authorization: 'Bearer secret',
      cookie: 'id=secret',
      'x-api-key': 'secret',
      'x-anything': 'secret',
      'proxy-authorization': 'secret',
      referer: 'https://secret.example/',
      accept: 'text/html',
    };
    const fetch = testOutbound({ allow: ['127.0.0.0/8'] }).fetchFor('stranger');
    expect(await (await fetch(server.url, { headers })).text()).toBe('hello');
    expect(server.requests[1]?.headers).toMatchObject(headers);
    expect(other.requests[0]?.headers.accept).toBe('text/html');
    expect(JSON.stringify(other.requests)).not.toContain('secret');
  });

  test.skipIf(!openssl)('from https to http is refused where something was sent along', async () => {
    const plain = await serveAnswers(hello);
    const secure = await serveAnswers(
      (_request, response) => void response.writeHead(302, { location: plain.url }).end(),
      '127.0.0.1',
      believedCertificate(openssl ?? ''),
    );
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger');
    for (const name of ['authorization', 'cookie', 'x-api-key', 'x-anything'])
      expect(await refusalOf(fetch(secure.url, { headers: { [name]: 'secret' } })), name).toBe(
        'redirect_refused',
      );
    expect([secure.requests.length, plain.requests.length]).toEqual([4, 0]);
    const headers = { accept: 'text/html' };
    expect(await (await fetch(secure.url, { headers })).text()).toBe('hello');
  });

  test.each([
    [301, 'POST', 'GET', ''],
    [302, 'POST', 'GET', ''],
    [303, 'POST', 'GET', ''],
    [303, 'PUT', 'GET', ''],
    [307, 'POST', 'POST', 'words'],
    [308, 'PUT', 'PUT', 'words'],
  ])('%i of a %s becomes a %s', async (status, method, becomes, sent) => {
    const bodies: string[] = [];
    const server = await serveAnswers(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += String(chunk);
      bodies.push(body);
      if (request.url === '/') response.writeHead(status, { location: '/next' }).end();
      else response.end('hello');
    });
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger');
    await (await fetch(server.url, { method, body: 'words' })).text();
    expect(server.requests[1]?.method).toBe(becomes);
    expect(bodies).toEqual(['words', sent]);
  });

  test('takes nothing that was sent to another server', async () => {
    const other = await serveAnswers(hello, '127.0.0.2');
    const server = await serveAnswers(
      (_request, response) => void response.writeHead(307, { location: other.url }).end(),
    );
    const fetch = testOutbound({ allow: ['127.0.0.0/8'] }).fetchFor('operator');
    expect(await refusalOf(fetch(server.url, { method: 'POST', body: 'a conversation' }))).toBe(
      'redirect_refused',
    );
    expect(other.requests).toEqual([]);
  });

  test('is handed over or refused where the caller wants that', async () => {
    const server = await countdown();
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger');
    const response = await fetch(`${server.url}/1`, { redirect: 'manual' });
    expect([response.status, response.headers.get('location')]).toEqual([302, '/0']);
    expect(await refusalOf(fetch(`${server.url}/1`, { redirect: 'error' }))).toBe('redirect_refused');
  });
});

describe('an answer', () => {
  const megabyte = Buffer.alloc(1024 * 1024);
  const limits = { maxBytes: 1024 * 1024 };

  test.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
    ['deflate', deflateSync],
    ['zstd', zstdCompressSync],
  ])(
    'of %s that unfolds to more than the limit is cut off; one of the limit is whole',
    async (coding, compress) => {
      const server = await serveAnswers(({ url }, response) => {
        const whole = url === '/bomb' ? Buffer.concat([...new Array(64)].map(() => megabyte)) : megabyte;
        response.writeHead(200, { 'content-encoding': coding }).end(compress(whole));
      });
      const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger', limits);
      expect((await (await fetch(`${server.url}/good`)).arrayBuffer()).byteLength).toBe(1024 * 1024);
      const bomb = await fetch(`${server.url}/bomb`);
      expect(await refusalOf(bomb.arrayBuffer())).toBe('answer_too_large');
    },
  );

  test.each([undefined, 'gzip'])(
    'that leads elsewhere leaves no connection open, packed by %s',
    async (coding) => {
      let open = 0;
      const server = await serveAnswers(({ url }, response) => {
        if (url === '/there') return void response.end('here');
        response.writeHead(302, { location: '/there', ...(coding && { 'content-encoding': coding }) });
        open += 1;
        response.once('close', () => {
          open -= 1;
        });
        const more = () =>
          response.destroyed || response.write(randomBytes(65_536)) || response.once('drain', more);
        for (let at = 0; at < 8; at += 1) more();
      });
      const call = testOutbound({ allow: ['127.0.0.1'] }).callFor('stranger');
      const answer = await call(`${server.url}/from`, { method: 'GET', headers: {} });
      expect(await textOf(answer.body, 100)).toBe('here');
      await expect.poll(() => open).toBe(0);
    },
  );

  test('without an end is cut off at the limit', async () => {
    const server = await serveAnswers((_request, response) => {
      const write = () => {
        while (!response.destroyed && response.write(megabyte));
      };
      response.on('drain', write);
      write();
    });
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger', limits);
    const response = await fetch(server.url);
    await expect(response.arrayBuffer()).rejects.toSatisfy(
      (error) => outboundSentence(error) === 'The answer is larger than 1 MB.',
    );
  });

  test('of empty compressed blocks, which unfold to nothing, is cut off at the limit', async () => {
    const block = Buffer.concat(Array.from({ length: 10_000 }, () => gzipSync('')));
    const server = await serveAnswers((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      const write = () => {
        while (!response.destroyed && response.write(block));
      };
      response.on('drain', write);
      write();
    });
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger', limits);
    const response = await fetch(server.url);
    await expect(response.arrayBuffer()).rejects.toThrow();
  });

  test('that does not begin, or drips, ends in time', async () => {
    const server = await serveAnswers(({ url }, response) => {
      if (url === '/silent') return;
      response.write('a');
      const timer = setInterval(() => response.write('a'), 20);
      response.on('close', () => clearInterval(timer));
    });
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger', {
      headersMs: 1000,
      totalMs: 1500,
    });
    await expect(fetch(`${server.url}/silent`)).rejects.toThrow('The server began no answer within 1 s.');
    const dripping = await fetch(`${server.url}/drip`);
    await expect(dripping.text()).rejects.toThrow('The server did not end its answer within 1.5 s.');
  });

  test('with huge headers is refused', async () => {
    const server = await serveAnswers(
      (_request, response) => void response.writeHead(200, { 'x-huge': 'a'.repeat(100_000) }).end('hello'),
    );
    const fetching = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger')(server.url);
    expect(await fetching.catch(outboundSentence)).toBe(
      'The server answered with headers that are too large.',
    );
  });

  test('is interrupted by its caller, whose reason is kept', async () => {
    const server = await serveAnswers((_request, response) => void response.write('a'));
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger', { totalMs: 60_000 });
    const controller = new AbortController();
    const response = await fetch(server.url, { signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(response.text()).rejects.toThrow('enough');
  });

  test('that nobody reads holds its server back', async () => {
    let sent = 0;
    const server = await serveAnswers((_request, response) => {
      const write = () => {
        do sent += megabyte.length;
        while (!response.destroyed && response.write(megabyte));
      };
      response.on('drain', write);
      write();
    });
    const fetch = testOutbound({ allow: ['127.0.0.1'] }).fetchFor('stranger');
    const response = await fetch(server.url);
    let before = -1;
    // Until nothing moves any more: the buffers of both kernels are full then.
    const still = () => {
      const same = before === sent;
      before = sent;
      return same;
    };
    await expect.poll(still, { interval: 200 }).toBe(true);
    expect(sent).toBeLessThan(32 * megabyte.length);
    await response.body?.cancel();
  });
});

describe('a call by hand', () => {
  const post = { method: 'POST', headers: {}, body: '{}' } as const;
  const megabyte = Buffer.alloc(1024 * 1024, 'a');
  const whole = Number.POSITIVE_INFINITY;

  test('goes where a fetch would, and nowhere else', async () => {
    const server = await serveAnswers(hello);
    const outbound = testOutbound();
    expect(await refusalOf(outbound.callFor('stranger')(server.url, post))).toBe('address_refused');
    expect(await refusalOf(outbound.callFor('account')('file:///etc/passwd', post))).toBe('url_refused');
    const inside = testOutbound({ resolver: async () => [{ address: '10.0.0.1', family: 4 }] });
    expect(await refusalOf(inside.callFor('stranger')('http://inside.example/', post))).toBe(
      'address_refused',
    );
    expect(server.requests).toEqual([]);
    const { status, headers, body } = await outbound.callFor('operator')(server.url, {
      ...post,
      headers: { 'X-Name': 'a', 'x-name': 'b' },
    });
    expect([status, headers['content-length'], await textOf(body, whole)]).toEqual([200, '5', 'hello']);
    expect(server.requests[0]?.headers).toMatchObject({ 'x-name': 'b', 'content-length': '2' });
  });

  test('an answer that is wanted as a text is read no further than it may be long', async () => {
    const server = await serveAnswers(hello);
    const { body } = await testOutbound().callFor('operator')(server.url, post);
    await expect(textOf(body, 4)).rejects.toMatchObject({ code: 'answer_too_large' });
  });

  test('follows redirects as a fetch does', async () => {
    const server = await serveAnswers((request, response) => {
      if (request.url === '/end') request.pipe(response);
      else if (request.url === '/away')
        response.writeHead(307, { location: 'http://localhost.example/' }).end();
      else response.writeHead(307, { location: '/end' }).end();
    });
    const call = testOutbound().callFor('operator');
    expect(await textOf((await call(server.url, post)).body, whole)).toBe('{}');
    expect(await refusalOf(call(`${server.url}/away`, post))).toBe('redirect_refused');
  });

  test('is bounded, also where it was packed without being asked for', async () => {
    const plain = Buffer.alloc(100_000, 'a');
    const server = await serveAnswers((request, response) => {
      if (request.url === '/plain') response.end(plain);
      else response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(plain));
    });
    const outbound = testOutbound();
    const bytesOf = async (path: string, maxBytes: number) => {
      const { body } = await outbound.callFor('operator', { maxBytes })(server.url + path, post);
      return (await textOf(body, whole)).length;
    };
    for (const path of ['/plain', '/packed']) {
      expect(await bytesOf(path, 200_000)).toBe(plain.length);
      expect(await refusalOf(bytesOf(path, 50_000))).toBe('answer_too_large');
    }
  });

  test.each(['/silent', '/begun'])('to %s ends with its caller, and the server hears of it', async (path) => {
    const closed = Promise.withResolvers<void>();
    const server = await serveAnswers((request, response) => {
      response.on('close', closed.resolve);
      if (request.url === '/begun') response.write('a');
    });
    const controller = new AbortController();
    const call = testOutbound().callFor('operator')(server.url + path, {
      ...post,
      signal: controller.signal,
    });
    const read = call.then(({ body }) => textOf(body, whole));
    await expect.poll(() => server.requests.length).toBe(1);
    controller.abort(new Error('enough'));
    await expect(read).rejects.toThrow('enough');
    await closed.promise;
  });

  test('that is left, or cut, ends there', async () => {
    const closed = Promise.withResolvers<void>();
    const server = await serveAnswers((request, response) => {
      response.write('a');
      if (request.url === '/cut') setTimeout(() => response.destroy(), 20);
      else response.on('close', closed.resolve);
    });
    const call = testOutbound().callFor('operator');
    const { body } = await call(server.url, post);
    expect((await body.next()).value?.toString()).toBe('a');
    await body.return?.();
    expect(await body.next()).toMatchObject({ done: true });
    await closed.promise;
    await expect(call(`${server.url}/cut`, post).then((cut) => textOf(cut.body, whole))).rejects.toThrow();
  });

  test('that nobody reads holds its server back, and brings all of it once it is read', async () => {
    let sent = 0;
    const most = 64 * megabyte.length;
    const server = await serveAnswers((_request, response) => {
      const write = () => {
        do sent += megabyte.length;
        while (!response.destroyed && response.write(megabyte) && sent < most);
        if (sent >= most) response.off('drain', write).end();
      };
      response.on('drain', write);
      write();
    });
    const { body } = await testOutbound().callFor('operator')(server.url, post);
    let before = -1;
    const still = () => {
      const same = before === sent;
      before = sent;
      return same;
    };
    await expect.poll(still, { interval: 200 }).toBe(true);
    expect(sent).toBeLessThan(most / 2);
    let bytes = 0;
    for await (const piece of body) bytes += piece.length;
    expect(bytes).toBe(most);
  });
});

test('nothing is connected to or loaded before the first request', async () => {
  await createOutbound({ shared: () => true }).close();
});
