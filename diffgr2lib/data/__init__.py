"""Data: catalogues, purchase sequences, the retriever's candidate lists, traces."""
