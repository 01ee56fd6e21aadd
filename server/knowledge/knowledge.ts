/** What the server knows of documents and of what they say. */
export { startClearing } from './clearing.ts';
export { embedTexts, isRefusedText } from './embed-texts.ts';
export { type InstalledModel, installModel } from './embedded/install-model.ts';
export type { EmbeddingPayer } from './embedder.ts';
export {
  createEmbedders,
  type Embedders,
  embeddedDimensions,
  embeddedIdentity,
  embeddedModel,
  type ProviderChoice,
  type WantedEmbedder,
} from './embedders.ts';
export { embeddingFailure } from './embedding-failure.ts';
export { createFileTexts, type FileTexts } from './file-texts.ts';
export { type Ingestion, startIngestion } from './ingestion.ts';
export { createParsers, type Parsers } from './parsing/parsers.ts';
export { type Reindexing, startReindexing } from './reindexing.ts';
export { createReranker, type Reranker } from './reranker.ts';
export { createPassageSearch, type PassageSearch } from './search.ts';
