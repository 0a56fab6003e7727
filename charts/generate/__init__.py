"""What is made for the charts from data: values, their schema and table, permissions, copies of rules and boards."""
