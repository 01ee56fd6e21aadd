/** The parts that take documents in, embed and find them; and who pays for the vectors. */
import { availableParallelism } from 'node:os';
import { createEmbedderChoice } from '../embedder-choice.ts';
import {
  createEmbedders,
  createFileTexts,
  createParsers,
  createPassageSearch,
  createReranker,
  type Embedders,
  type EmbeddingPayer,
  type PassageSearch,
  startClearing,
  startIngestion,
  startReindexing,
} from '../knowledge/knowledge.ts';
import { createMemorySearches } from '../memory-search.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { hasDied, nameOwner } from '../process-name.ts';
import type { FindPassages, Runtime } from '../runtime/runtime.ts';
import type { Services } from '../services.ts';
import type { Reach, Searcher, Spender, SpendingRun, Store } from '../store/store.ts';
import type { ServicesInput } from './input.ts';
import { leaseOf } from './lease.ts';

/** What an address may answer that a document is made from. */
const documentLimits = { maxBytes: 32 * 1024 * 1024, headersMs: 20_000, totalMs: 60_000 };

/** What is said of corpora without vectors beside others that have some. */
const notEmbeddedYet = {
  embedder: null,
  reason: 'the embedder has not embedded these documents yet; index their corpora anew.',
};

/** The parts that runs find passages and memories by; `runtime` is asked when a provider embeds or reranks, not before. */
export function openSearches(
  { settings, log }: ServicesInput,
  store: Store,
  runtime: () => Pick<Runtime, 'embedding' | 'reranking'>,
) {
  const embedders = createEmbedders({
    modelsDirectory: settings.modelsDirectory,
    chosen: () => store.embedderSettings.chosen(),
    known: (identity) => store.embedderSettings.known(identity),
    open: (wanted) => runtime().embedding(wanted),
  });
  const passageSearch = createPassageSearch<Searcher>({
    index: store.passages,
    embedders: async (searcher, { corpusIds: asked }) => {
      const made = await store.reindexings.embeddersOf(asked);
      const payer = searcherPays(store, searcher, asked[0]);
      if ([...made.keys()].every((identity) => identity === null))
        return [{ corpusIds: asked, atHand: await embedders.current(payer) }];
      // On its way to another embedder, a corpus is asked by the one whose vectors it has.
      const groups = [...made].map(async ([identity, corpusIds]) => ({
        corpusIds,
        atHand: identity === null ? notEmbeddedYet : await embedders.named(identity, payer),
      }));
      return await Promise.all(groups);
    },
    embeddingFailed: (error, level) => log[level]({ err: error }, 'a question could not be embedded'),
  });
  const payers = {
    searcher: (searcher: Searcher) => searcherPays(store, searcher),
    run: (run: SpendingRun) => runPays(store, run),
  };
  const memorySearches = createMemorySearches({ store, embedders, payers, log });
  const openReranker: Services['openReranker'] = async ({ model, candidates = 50 }, who) =>
    createReranker({
      model: await runtime().reranking(model, who.asker),
      candidates,
      payer: callerPays(store, who.reach, who.apiKeyId),
      failed: (error) => log.error({ err: error }, 'a search could not be reranked'),
    });
  return { embedders, passageSearch, memorySearches, openReranker };
}

/** The parts that work in the background from now on, until they are closed. */
export function startKnowledge(
  { settings, log }: ServicesInput,
  store: Store,
  { embedders, outbound, now }: { embedders: Embedders; outbound: Outbound; now: () => Date },
) {
  const parsers = createParsers({ processes: Math.max(1, availableParallelism() - 1), log });
  const file = (id: string) => store.files.forServer(id);
  const fileTexts = createFileTexts({ file, texts: store.extractedTexts, parsers });
  const ingestion = startIngestion({
    records: store.ingestionWork,
    texts: store.extractedTexts,
    chunks: store.chunks,
    parsers,
    currentEmbedder: (item) => embedders.current(payerOf(store, async () => item)),
    file,
    fetch: outbound.fetchFor('account', documentLimits),
    owner: nameOwner(),
    hasDied,
    lanes: Math.max(2, availableParallelism()),
    lease: leaseOf(settings),
    now,
    log,
  });
  const reindexing = startReindexing({
    queue: store.reindexings,
    named: (identity, payer) => embedders.named(identity, payer),
    payerOf: (spender) => payerOf(store, async () => spender),
    ready: async () => (await embedders.current()).embedder?.identity ?? null,
    log,
  });
  const clearing = startClearing({ chunks: store.chunks, log });
  const wakes = <Worker extends { wake(): void }>(worker: Worker): Worker => ({
    ...worker,
    wake: () => store.keptRequests.whenCommitted(worker.wake),
  });
  const embedderChoice = createEmbedderChoice({ store, embedders, changed: wakes(reindexing).wake });
  return {
    ...{ parsers, fileTexts, clearing, embedderChoice },
    ...{ ingestion: wakes(ingestion), reindexing: wakes(reindexing) },
  };
}

/** Looks again into the corpus of a query, with the rights that its person has by then. */
export function passageFinder(store: Store, search: PassageSearch<Searcher>): FindPassages {
  return async ({ corpusId, ...run }, { query, limit }, signal) => {
    const reach = await reachOf(store, run.userId);
    if (!(await store.corpora.find(reach, corpusId)))
      return { passages: [], notice: 'The corpus is gone, or the person may not read it any more.' };
    const question = { corpusIds: [corpusId], query, mode: 'hybrid' as const, topK: limit };
    const { apiKeyId, ...place } = await store.meteredCalls.spenderOfRun(run);
    const { data, notice } = await search.search({ ...reach, apiKeyId, place }, question, signal);
    return { passages: data, notice };
  };
}

/** What a person reaches by now. */
async function reachOf({ principals }: Store, userId: string): Promise<Reach> {
  const person = await principals.byUser(userId);
  const memberships = person?.memberships ?? [];
  const organizationIds = memberships.map(({ organizationId }) => organizationId);
  return { userId, memberships, organizationIds, workspaces: person?.workspaces ?? [] };
}

/** Whoever asks pays for the vector of the question. */
function searcherPays(store: Store, searcher: Searcher, corpusId?: string): EmbeddingPayer {
  return payerOf(store, () => store.meteredCalls.spenderOfSearch(searcher, corpusId));
}

/** The same where a run asks. */
function runPays(store: Store, run: SpendingRun): EmbeddingPayer {
  return payerOf(store, () => store.meteredCalls.spenderOfRun(run));
}

/** Whoever wants what was found in the order of a model has asked that model for it. */
function callerPays({ meteredCalls }: Store, reach: Reach, apiKeyId: string | null): EmbeddingPayer {
  return {
    async begin(model) {
      const call = await meteredCalls.begin(reach, model, apiKeyId);
      return { spent: (spent) => meteredCalls.finish(call, spent), end: () => meteredCalls.end(call) };
    },
  };
}

/**
 * Vectors belong to what they are made for, and are no request of their own. Those that are made in the background count
 * for whoever has added the documents, or has the corpus.
 */
function payerOf({ meteredCalls }: Store, whose: () => Promise<Spender>): EmbeddingPayer {
  return {
    async begin() {
      const spender = await whose();
      await meteredCalls.requireRoom(spender);
      return { spent: (spent) => meteredCalls.spend(spender, spent), end: async () => undefined };
    },
  };
}
