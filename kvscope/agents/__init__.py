"""From rings on many hosts to one folder of parts: batches, a spool, an aggregator that takes each batch once."""
